"""Store of approved tools. Tools are parameters, so each has a history and can be rolled back."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from atoll import errors
from atoll.governed import reserved_keys
from atoll.governed.agent.tools.definition import MAX_DEPTH, InvalidTool, ToolDefinition, from_json
from atoll.governed.errors import ParameterNotFound
from atoll.governed.parameters import ParameterStore

PREFIX = "tools/"


class ToolBuilder:
    """Loads tools and saves approved ones.

    Args:
        store: Holds the tools.
        builtin_names: Names that new tools cannot use.
    """

    def __init__(self, store: ParameterStore, builtin_names: Collection[str] = ()) -> None:
        self._store, self._builtin_names = store, frozenset(builtin_names)

    def find(self, name: str) -> ToolDefinition:
        """Returns a tool by name.

        Raises:
            NotFound: The tool does not exist.
            InvalidTool: The stored value is not a tool.
        """
        try:
            return from_json(self._store.get(PREFIX + name).value)
        except ParameterNotFound:
            raise errors.NotFound(f"Tool {name!r:.80} not found.") from None

    def load_all(self) -> reserved_keys.LoadResult[ToolDefinition]:
        """Returns all tools, and an error message for each unreadable one."""
        return reserved_keys.load_all(self._store, PREFIX, self.find, InvalidTool)

    def prepare(self, content: Mapping[str, Any]) -> ToolDefinition:
        """Returns the checked tool as it would be saved, with the next version.

        Raises:
            InvalidTool: The definition is invalid, its name is reserved, or its steps form a cycle.
        """
        tool = from_json(content)
        if tool.name in self._builtin_names:
            raise InvalidTool(f"{tool.name} is the name of a built-in tool. Choose another name.")
        try:
            previous_version = self.find(tool.name).version
        except errors.NotFound:
            previous_version = 0
        self._check_steps(tool, (tool.name,), set())
        return replace(tool, version=previous_version + 1)

    def save(self, content: Mapping[str, Any], reason: str, author: str, token: str) -> str:
        """Saves an approved tool and returns its key and version.

        Raises:
            InvalidTool: The definition is invalid.
        """
        return reserved_keys.save_item(self._store, PREFIX, self.prepare(content), reason, author, token)

    def _check_steps(self, tool: ToolDefinition, callers: tuple[str, ...], visited: set[str]) -> None:
        for step in tool.steps:
            if step.tool in callers:
                raise InvalidTool(f"The tools call each other in a cycle: {' > '.join((*callers, step.tool))}.")
            if len(callers) > MAX_DEPTH:
                raise InvalidTool(f"The tools are nested too deep: {' > '.join((*callers, step.tool))}.")
            if step.tool in visited:
                continue
            try:
                step_tool = self.find(step.tool)
            except errors.NotFound:
                raise InvalidTool(f"Tool {tool.name} calls {step.tool}, which does not exist.") from None
            self._check_steps(step_tool, (*callers, step.tool), visited)
            visited.add(step.tool)

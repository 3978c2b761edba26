"""The tools that were approved: kept as parameters, so each has a history and can be rolled back."""

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
    """Finds tools by name, and takes in new ones.

    Args:
        store: Where they are kept.
        built_in: Names that are taken.
    """

    def __init__(self, store: ParameterStore, builtin_names: Collection[str] = ()) -> None:
        self._store, self._builtin_names = store, frozenset(builtin_names)

    def find(self, name: str) -> ToolDefinition:
        """Returns a tool as it is now.

        Raises:
            NotFound: There is none.
            ToolRefused: What is kept under its name is no tool.
        """
        try:
            return from_json(self._store.get(PREFIX + name).value)
        except ParameterNotFound:
            raise errors.NotFound(f"There is no tool {name!r:.80}.") from None

    def load_all(self) -> reserved_keys.LoadResult[ToolDefinition]:
        """Returns all tools; one that cannot be read hides no other."""
        return reserved_keys.load_all(self._store, PREFIX, self.find, InvalidTool)

    def prepare(self, content: Mapping[str, Any]) -> ToolDefinition:
        """Returns the tool that a content describes, as it would be kept: checked, and one version on.

        Raises:
            ToolRefused: It cannot work, its name is taken, or its steps lead in a circle.
        """
        tool = from_json(content)
        if tool.name in self._builtin_names:
            raise InvalidTool(f"{tool.name} is a tool that is built in: choose another name.")
        try:
            previous_version = self.find(tool.name).version
        except errors.NotFound:
            previous_version = 0
        self._check_steps(tool, (tool.name,), set())
        return replace(tool, version=previous_version + 1)

    def save(self, content: Mapping[str, Any], reason: str, author: str, token: str) -> str:
        """Keeps an approved tool and returns its name and version.

        Raises:
            ToolRefused: It cannot work.
        """
        return reserved_keys.save_item(self._store, PREFIX, self.prepare(content), reason, author, token)

    def _check_steps(self, tool: ToolDefinition, callers: tuple[str, ...], visited: set[str]) -> None:
        for step in tool.steps:
            if step.tool in callers:
                raise InvalidTool(f"Tools call each other in a circle: {' > '.join((*callers, step.tool))}.")
            if len(callers) > MAX_DEPTH:
                raise InvalidTool(f"Tools call each other too deep: {' > '.join((*callers, step.tool))}.")
            if step.tool in visited:
                continue
            try:
                step_tool = self.find(step.tool)
            except errors.NotFound:
                raise InvalidTool(f"{tool.name} calls {step.tool}, and there is no such tool.") from None
            self._check_steps(step_tool, (*callers, step.tool), visited)
            visited.add(step.tool)

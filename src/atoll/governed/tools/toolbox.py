"""The tools that were approved: kept as parameters, so each has a history and can be rolled back."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from atoll import errors
from atoll.governed import shelves
from atoll.governed.errors import ParameterNotFound
from atoll.governed.parameters import ParameterStore
from atoll.governed.tools.definition import DEEPEST, ToolDefinition, ToolRefused, from_json

PREFIX = "tools/"


class Toolbox:
    """Finds tools by name, and takes in new ones.

    Args:
        store: Where they are kept.
        built_in: Names that are taken.
    """

    def __init__(self, store: ParameterStore, built_in: Collection[str] = ()) -> None:
        self._store, self._built_in = store, frozenset(built_in)

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

    def load_all(self) -> shelves.LoadResult[ToolDefinition]:
        """Returns all tools; one that cannot be read hides no other."""
        return shelves.load_all(self._store, PREFIX, self.find, ToolRefused)

    def checked(self, content: Mapping[str, Any]) -> ToolDefinition:
        """Returns the tool that a content describes, as it would be kept: checked, and one version on.

        Raises:
            ToolRefused: It cannot work, its name is taken, or its steps lead in a circle.
        """
        made = from_json(content)
        if made.name in self._built_in:
            raise ToolRefused(f"{made.name} is a tool that is built in: choose another name.")
        try:
            before = self.find(made.name).version
        except errors.NotFound:
            before = 0
        self._check_steps(made, (made.name,), set())
        return replace(made, version=before + 1)

    def keep(self, content: Mapping[str, Any], reason: str, author: str, token: str) -> str:
        """Keeps an approved tool and returns its name and version.

        Raises:
            ToolRefused: It cannot work.
        """
        return shelves.keep(self._store, PREFIX, self.checked(content), reason, author, token)

    def _check_steps(self, tool: ToolDefinition, above: tuple[str, ...], checked: set[str]) -> None:
        for step in tool.steps:
            if step.tool in above:
                raise ToolRefused(f"Tools call each other in a circle: {' > '.join((*above, step.tool))}.")
            if len(above) > DEEPEST:
                raise ToolRefused(f"Tools call each other too deep: {' > '.join((*above, step.tool))}.")
            if step.tool in checked:
                continue
            try:
                below = self.find(step.tool)
            except errors.NotFound:
                raise ToolRefused(f"{tool.name} calls {step.tool}, and there is no such tool.") from None
            self._check_steps(below, (*above, step.tool), checked)
            checked.add(step.tool)

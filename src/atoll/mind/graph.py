"""The graph of worldlines: who came from whom, from the base world on."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from atoll import errors
from atoll.mind import worldline
from atoll.mind.worldline import BASE, Worldline


@dataclass(eq=False)
class WorldlineGraph:
    """Worldlines by id, each after its parents; what changes is put in anew under its id."""

    lines: dict[str, Worldline] = field(default_factory=dict)

    def add(self, line: Worldline) -> Worldline:
        """Puts a worldline in, or a newer state of it.

        Raises:
            NotFound: A parent is not in the graph.
        """
        for parent in line.parents:
            if parent not in self.lines:
                raise errors.NotFound(
                    f"{line.worldline_id} comes from {parent}, which is not in the graph: add it first."
                )
        self.lines[line.worldline_id] = line
        return line

    def get(self, worldline_id: str) -> Worldline:
        """Returns a worldline.

        Raises:
            NotFound: There is none of that id.
        """
        if worldline_id not in self.lines:
            raise errors.NotFound(f"There is no worldline {worldline_id}.")
        return self.lines[worldline_id]

    def children(self, worldline_id: str) -> list[Worldline]:
        return [line for line in self.lines.values() if worldline_id in line.parents]

    def ancestors(self, worldline_id: str) -> list[Worldline]:
        """Returns all that a worldline comes from, the nearest first."""
        found: dict[str, Worldline] = {}
        waiting = list(self.get(worldline_id).parents)
        while waiting:
            name = waiting.pop(0)
            if name not in found:
                found[name] = self.get(name)
                waiting += found[name].parents
        return list(found.values())

    def to_lines(self) -> Iterator[str]:
        """Yields the graph as JSON, a worldline a line, parents first."""
        return (line.to_json() for line in self.lines.values())


def from_lines(lines: Iterator[str]) -> WorldlineGraph:
    """Reads back what `WorldlineGraph.to_lines` wrote."""
    made = WorldlineGraph()
    for line in lines:
        made.add(worldline.from_data(json.loads(line)))
    return made


def initialize_worldline_graph(
    base: Worldline | None = None, metrics: Mapping[str, float] | None = None
) -> WorldlineGraph:
    """Returns a graph with the base world W0 in it."""
    made = WorldlineGraph()
    made.add(base or Worldline(BASE, metrics=metrics or {}, summary="the world before any plan"))
    return made

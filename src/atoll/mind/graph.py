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

    nodes: dict[str, Worldline] = field(default_factory=dict)

    def add(self, node: Worldline) -> Worldline:
        """Puts a worldline in, or a newer state of it.

        Raises:
            NotFound: A parent is not in the graph.
        """
        for parent in node.parents:
            if parent not in self.nodes:
                raise errors.NotFound(
                    f"{node.worldline_id} comes from {parent}, which is not in the graph: add it first."
                )
        self.nodes[node.worldline_id] = node
        return node

    def get(self, worldline_id: str) -> Worldline:
        """Returns a worldline.

        Raises:
            NotFound: There is none of that id.
        """
        if worldline_id not in self.nodes:
            raise errors.NotFound(f"There is no worldline {worldline_id}.")
        return self.nodes[worldline_id]

    def children(self, worldline_id: str) -> list[Worldline]:
        return [node for node in self.nodes.values() if worldline_id in node.parents]

    def ancestors(self, worldline_id: str) -> list[Worldline]:
        """Returns all that a worldline comes from, the nearest first."""
        ancestors_by_id: dict[str, Worldline] = {}
        queue = list(self.get(worldline_id).parents)
        while queue:
            ancestor_id = queue.pop(0)
            if ancestor_id not in ancestors_by_id:
                ancestors_by_id[ancestor_id] = self.get(ancestor_id)
                queue += ancestors_by_id[ancestor_id].parents
        return list(ancestors_by_id.values())

    def to_lines(self) -> Iterator[str]:
        """Yields the graph as JSON, a worldline a line, parents first."""
        return (node.to_json() for node in self.nodes.values())


def from_lines(lines: Iterator[str]) -> WorldlineGraph:
    """Reads back what `WorldlineGraph.to_lines` wrote."""
    graph = WorldlineGraph()
    for line in lines:
        graph.add(worldline.from_data(json.loads(line)))
    return graph


def initialize_worldline_graph(
    base: Worldline | None = None, metrics: Mapping[str, float] | None = None
) -> WorldlineGraph:
    """Returns a graph with the base world W0 in it."""
    graph = WorldlineGraph()
    graph.add(base or Worldline(BASE, metrics=metrics or {}, summary="the world before any plan"))
    return graph

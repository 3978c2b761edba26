"""The individual that evolves: a worldline, what it decided, and what was found out about it."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from atoll import errors
from atoll.candidate import EMPTY, JSON
from atoll.mind import actions, worldline
from atoll.mind.actions import Action, Result

BASE = "W0"  # the world from which all others fork

type Status = Literal["open", "ran", "approved", "rejected", "merged", "archived"]

# The raw metrics, in the order of their weights; islands weigh them differently, so only these are stored.
METRICS = ("temporal_consistency", "divergence", "task_progress", "review_feedback", "resource_cost")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A point to go back to.

    Attributes:
        commit: The git commit of a workspace; empty for a text.
        context: The JSONL file of the agent's context, by its name beside the workspace.
        line: How many of its lines belong to this worldline.
    """

    commit: str = ""
    context: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """A fork plan: what a new worldline is to do, from which one.

    Attributes:
        actions: In the order in which they are done.
        parents: Ids of the worldlines whose traces it was made from.
        memory_refs: Memories that it starts with.
        note: Why, in words.
    """

    actions: tuple[Action, ...] = ()
    parents: tuple[str, ...] = (BASE,)
    memory_refs: tuple[str, ...] = ()
    note: str = ""

    def to_json(self) -> str:
        """Returns the plan as canonical text: what a candidate's content is."""
        data = {"actions": [actions.to_data(action) for action in self.actions]}
        return json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1)


@dataclass(frozen=True, slots=True)
class Worldline:
    """A state of the world and how it came about; frozen: what changes is another one with the same id.

    Attributes:
        worldline_id: Unique in a run.
        parents: Ids of the worldlines that it was made from; empty for the base.
        decision_trace: The actions that led here, in order.
        memory_refs: Memories and highlights that it read.
        memory_links: What it links together, from one id to others.
        agent_prompts: What author and critic said, in order.
        metrics: The raw vector, by the names of `METRICS`; never weighted.
        summary: What it is, in a sentence.
        highlight: What is worth remembering of it.
        checkpoint: Where its state is kept.
        context: Messages of the agent that wrote it, as plain data.
        tool_history: What came of its actions.
        status: Where it stands.
    """

    worldline_id: str
    parents: tuple[str, ...] = ()
    decision_trace: tuple[Action, ...] = ()
    memory_refs: tuple[str, ...] = ()
    memory_links: Mapping[str, tuple[str, ...]] = EMPTY
    agent_prompts: tuple[str, ...] = ()
    metrics: Mapping[str, float] = EMPTY
    summary: str = ""
    highlight: str = ""
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    context: tuple[Mapping[str, Any], ...] = ()
    tool_history: tuple[Result, ...] = ()
    status: Status = "open"

    def with_status(self, status: Status) -> "Worldline":
        return replace(self, status=status)

    def to_data(self) -> dict[str, JSON]:
        """Returns it as plain data."""
        checkpoint = self.checkpoint
        return {
            "worldline_id": self.worldline_id,
            "parents": list(self.parents),
            "decision_trace": [actions.to_data(action) for action in self.decision_trace],
            "memory_refs": list(self.memory_refs),
            "memory_links": {name: list(ids) for name, ids in self.memory_links.items()},
            "agent_prompts": list(self.agent_prompts),
            "metrics": dict(self.metrics),
            "summary": self.summary,
            "highlight": self.highlight,
            "checkpoint": {"commit": checkpoint.commit, "context": checkpoint.context, "line": checkpoint.line},
            "context": [dict(message) for message in self.context],
            "tool_history": [result.to_data() for result in self.tool_history],
            "status": self.status,
        }

    def to_json(self) -> str:
        return json.dumps(self.to_data(), ensure_ascii=False, sort_keys=True)


def from_data(data: Mapping[str, Any]) -> Worldline:
    """Reads back what `Worldline.to_data` wrote.

    Raises:
        SetupError: Something in its trace is no action.
    """
    return Worldline(
        worldline_id=data["worldline_id"],
        parents=tuple(data["parents"]),
        decision_trace=tuple(actions.from_data(action) for action in data["decision_trace"]),
        memory_refs=tuple(data["memory_refs"]),
        memory_links={name: tuple(ids) for name, ids in data["memory_links"].items()} or EMPTY,
        agent_prompts=tuple(data["agent_prompts"]),
        metrics=dict(data["metrics"]) or EMPTY,
        summary=data["summary"],
        highlight=data["highlight"],
        checkpoint=Checkpoint(**data["checkpoint"]),
        context=tuple(data["context"]),
        tool_history=tuple(actions.result_from_data(result) for result in data["tool_history"]),
        status=data["status"],
    )


def from_json(text: str) -> Worldline:
    """Reads back what `Worldline.to_json` wrote."""
    return from_data(json.loads(text))


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

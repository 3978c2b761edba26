"""Worldlines, their plans, the graph of their ancestry, and the backends that keep them as text or in git."""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from atoll import errors
from atoll.candidate import EMPTY, JSON
from atoll.mind import actions
from atoll.mind.actions import Action, Result

BASE = "W0"  # the world from which all others fork

type Status = Literal["open", "ran", "approved", "rejected", "merged", "archived"]

# Raw metrics in the order of their weights. Islands have different weights, so only raw metrics are stored.
METRICS = ("temporal_consistency", "divergence", "task_progress", "review_feedback", "resource_cost")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Saved state of a worldline.

    Attributes:
        commit: Git commit of a workspace; empty for a text.
        context: Name of the JSONL file of the agent's context.
        line: Number of its lines that belong to this worldline.
    """

    commit: str = ""
    context: str = ""
    line: int = 0


@dataclass(frozen=True, slots=True)
class Plan:
    """Plan of a fork: the actions of a new worldline.

    Attributes:
        actions: In execution order.
        parents: Ids of the worldlines that the plan was made from.
        memory_refs: Memories to start with.
        note: Reason in words.
    """

    actions: tuple[Action, ...] = ()
    parents: tuple[str, ...] = (BASE,)
    memory_refs: tuple[str, ...] = ()
    note: str = ""

    def to_json(self) -> str:
        """Returns the plan as canonical JSON, the content of a candidate."""
        data = {"actions": [actions.to_data(action) for action in self.actions]}
        return json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1)


@dataclass(frozen=True, slots=True)
class Worldline:
    """State of the world with its history. Immutable: a change makes a new object with the same id.

    Attributes:
        worldline_id: Unique in a run.
        parents: Ids of the parents; empty for the base.
        decision_trace: Actions that led here, in order.
        memory_refs: Memories and highlights that it read.
        memory_links: Links that it adds, from one id to others.
        agent_prompts: Messages of author and critic, in order.
        metrics: Raw metrics by the names of `METRICS`, without weights.
        summary: One sentence.
        highlight: The point worth remembering.
        checkpoint: Its saved state.
        context: Messages of its agent, as plain data.
        tool_history: Results of its actions.
        status: Its status.
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
    """Reads a worldline from the data that `Worldline.to_data` returns.

    Raises:
        SetupError: The trace contains something else than actions.
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
    """Reads a worldline from `Worldline.to_json`."""
    return from_data(json.loads(text))


@dataclass(eq=False)
class WorldlineGraph:
    """Worldlines by id, each after its parents. A new state replaces the old one under the same id."""

    nodes: dict[str, Worldline] = field(default_factory=dict)

    def add(self, node: Worldline) -> Worldline:
        """Adds a worldline, or replaces it by a newer state.

        Raises:
            NotFound: A parent is not in the graph.
        """
        for parent in node.parents:
            if parent not in self.nodes:
                raise errors.NotFound(f"Parent {parent} of {node.worldline_id} is not in the graph. Add it first.")
        self.nodes[node.worldline_id] = node
        return node

    def get(self, worldline_id: str) -> Worldline:
        """Returns a worldline.

        Raises:
            NotFound: The id is not in the graph.
        """
        if worldline_id not in self.nodes:
            raise errors.NotFound(f"Worldline {worldline_id} not found.")
        return self.nodes[worldline_id]

    def children(self, worldline_id: str) -> list[Worldline]:
        return [node for node in self.nodes.values() if worldline_id in node.parents]

    def ancestors(self, worldline_id: str) -> list[Worldline]:
        """Returns all ancestors of a worldline, nearest first."""
        ancestors_by_id: dict[str, Worldline] = {}
        queue = list(self.get(worldline_id).parents)
        while queue:
            ancestor_id = queue.pop(0)
            if ancestor_id not in ancestors_by_id:
                ancestors_by_id[ancestor_id] = self.get(ancestor_id)
                queue += ancestors_by_id[ancestor_id].parents
        return list(ancestors_by_id.values())

    def to_lines(self) -> Iterator[str]:
        """Yields one line of JSON per worldline, parents first."""
        return (node.to_json() for node in self.nodes.values())


def from_lines(lines: Iterator[str]) -> WorldlineGraph:
    """Reads a graph from the lines of `WorldlineGraph.to_lines`."""
    graph = WorldlineGraph()
    for line in lines:
        graph.add(from_data(json.loads(line)))
    return graph


def initialize_worldline_graph(
    base: Worldline | None = None, metrics: Mapping[str, float] | None = None
) -> WorldlineGraph:
    """Returns a graph with the base world W0."""
    graph = WorldlineGraph()
    graph.add(base or Worldline(BASE, metrics=metrics or {}, summary="the world before any plan"))
    return graph


class WorldlineBackend(Protocol):
    """Forks, runs, compares and archives worldlines.

    Several worker threads call it at once. Errors of a plan are data in the tool history, not exceptions. If the
    machine lacks something, it raises a SetupError that says what to do. The base does not change before an approval.
    """

    def fork(self, parent: Worldline, plan: Plan, worldline_id: str) -> Worldline:
        """Returns a new worldline with the state of its parent. The plan has not run yet."""

    def run(self, worldline: Worldline, plan: Plan) -> Worldline:
        """Runs the actions of the plan in order, up to the first failure."""

    def diff(self, worldline: Worldline, base: Worldline) -> str:
        """Returns a unified diff from the base to the worldline."""

    def compute_divergence(self, worldline: Worldline, base: Worldline) -> float:
        """Returns the distance in code, memory and actions: 0 (equal) to 1."""

    def archive(self, worldline: Worldline) -> Worldline:
        """Releases all resources but the record. The worldline can still be read and forked."""

    def close(self) -> None:
        """Archives all open worldlines. Called once, at the end of the run."""


class TextBackend:
    """Worldlines that consist of their decision trace only."""

    def fork(self, parent: Worldline, plan: Plan, worldline_id: str) -> Worldline:
        refs = tuple(dict.fromkeys((*parent.memory_refs, *plan.memory_refs)))
        return Worldline(worldline_id, plan.parents or (parent.worldline_id,), memory_refs=refs)

    def run(self, worldline: Worldline, plan: Plan) -> Worldline:
        results = tuple(Result(action) for action in plan.actions)
        trace = (*worldline.decision_trace, *plan.actions)
        history = (*worldline.tool_history, *results)
        return replace(worldline, decision_trace=trace, tool_history=history, status="ran")

    def diff(self, worldline: Worldline, base: Worldline) -> str:
        before, after = format_trace(base.decision_trace), format_trace(worldline.decision_trace)
        return "\n".join(
            difflib.unified_diff(before, after, base.worldline_id, worldline.worldline_id, lineterm="", n=1)
        )

    def compute_divergence(self, worldline: Worldline, base: Worldline) -> float:
        trace_distance = compute_distance(format_trace(worldline.decision_trace), format_trace(base.decision_trace))
        memory_distance = compute_set_distance(set(worldline.memory_refs), set(base.memory_refs))
        return (
            (3 * trace_distance + memory_distance) / 4 if worldline.memory_refs or base.memory_refs else trace_distance
        )

    def archive(self, worldline: Worldline) -> Worldline:
        return worldline.with_status("archived")

    def close(self) -> None:
        pass


def format_action(action: Action) -> str:
    """Returns an action as one line of text."""
    values = (getattr(action, name) for name in action.__slots__)
    texts = (" ".join(value) if isinstance(value, tuple) else value for value in values)
    return " | ".join((actions.ACTION_NAMES[type(action)], *texts)).replace("\n", " ")


def format_trace(trace: tuple[Action, ...]) -> list[str]:
    return [format_action(action) for action in trace]


def compute_distance(first: list[str], second: list[str]) -> float:
    """Returns the share of two sequences that differs: 0 (equal) to 1."""
    if not first and not second:
        return 0.0
    return 1.0 - difflib.SequenceMatcher(a=first, b=second, autojunk=False).ratio()


def compute_set_distance(first: set[str], second: set[str]) -> float:
    """Returns the share of elements that are in only one of two sets."""
    return len(first ^ second) / len(first | second) if first | second else 0.0

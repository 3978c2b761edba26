"""A run as a tree: run, island, generation, worldline, turn. Each node summarizes the nodes below it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from atoll import store
from atoll.runs.text_format import format_number


@dataclass(slots=True)
class Node:
    """Node of the tree.

    Attributes:
        summary: One line about the nodes below it, or about the turn.
        best: Best score below it.
        data: Of a leaf: id and parents of the candidate, response of the critic, plan.
    """

    title: str
    summary: str = ""
    best: float | None = None
    data: dict[str, Any] = field(default_factory=dict)
    nodes: list["Node"] = field(default_factory=list)

    def to_data(self) -> dict[str, Any]:
        children = [node.to_data() for node in self.nodes]
        return {"title": self.title, "summary": self.summary, "best": self.best, **self.data, "nodes": children}

    def iter_lines(self, depth: int, indent: int = 0) -> Iterator[str]:
        """Yields the tree as indented text, down to a depth."""
        yield f"{'  ' * indent}{self.title}{': ' if self.summary else ''}{self.summary}"
        if depth:
            for node in self.nodes:
                yield from node.iter_lines(depth - 1, indent + 1)


def build_tree(run_store: store.Store, run_id: str, *, island: int | None = None) -> Node:
    """Returns the tree of a run. An iteration is one worldline, its children are the turns of the conversation."""
    steps: dict[tuple[int, int], dict[int, list[store.Row]]] = {}
    for row in run_store.candidates(run_id):
        if row.step and not row.is_draft and island in (None, row.island):
            generation = row.meta.get("generation", 0)
            key = row.island, generation if isinstance(generation, int) else 0
            steps.setdefault(key, {}).setdefault(row.step, []).append(row)
    islands: dict[int, list[Node]] = {}
    for (island_index, generation), rows_by_step in sorted(steps.items()):
        worldlines = [_make_worldline(step, rows) for step, rows in sorted(rows_by_step.items())]
        islands.setdefault(island_index, []).append(
            _make_branch(f"generation {generation + 1}", worldlines, "worldlines")
        )
    nodes = [
        _make_branch(f"island {island_index}", generations, "generations")
        for island_index, generations in sorted(islands.items())
    ]
    return _make_branch(f"run {run_id}", nodes, "islands")


def _make_branch(title: str, nodes: list[Node], plural: str) -> Node:
    scores = [node.best for node in nodes if node.best is not None]
    summary = f"{len(nodes)} {plural if len(nodes) != 1 else plural[:-1]}"
    if scores:
        summary += f", best {format_number(max(scores))}, mean {format_number(fmean(scores))}"
    return Node(title, summary, max(scores, default=None), nodes=nodes)


def _make_worldline(step: int, rows: Sequence[store.Row]) -> Node:
    turns = [_make_turn(position, row) for position, row in enumerate(rows, 1)]
    parents = ", ".join(rows[0].parents) or "no parent"
    node = _make_branch(f"worldline {step}", turns, "turns")
    node.summary = f"from {parents}; {node.summary}"
    node.data = {"parents": list(rows[0].parents)}
    return node


def _make_turn(position: int, row: store.Row) -> Node:
    critic = str(row.meta.get("critic", ""))
    feedback = row.failure or row.feedback.partition("\n")[0]
    summary = f"{row.id}, score {format_number(row.score)}"
    summary += f"; evaluator: {feedback}" if feedback else ""
    summary += f"; critic: {critic.strip().partition('\n')[0]}" if critic.strip() else ""
    details: dict[str, Any] = {
        name: row.meta[name] for name in ("fork", "memory", "tools", "usage") if name in row.meta
    }
    memory, tools = details.get("memory") or (), details.get("tools") or ()
    roles = ", ".join(str(note.get("role")) for note in memory if isinstance(note, dict))
    summary += f"; fork: {details['fork']}" if "fork" in details else ""
    summary += f"; notes: {roles}" if roles else ""
    summary += f"; {len(tools)} tools" if isinstance(tools, list) and tools else ""
    data = {"id": row.id, "critic": critic, "judge": row.failure or row.feedback, "content": row.content, **details}
    return Node(f"turn {position}", summary, row.score, data)

"""A run as a tree to read: run, island, generation, worldline, turn; each with a summary of what is below it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from atoll import store
from atoll.runs.text_format import format_number


@dataclass(slots=True)
class Node:
    """A branch or a leaf.

    Attributes:
        title: What it is.
        summary: What is below it, or what was said, in a line.
        best: The best score below it.
        data: What a leaf holds: the candidate's id, its parents, what the critic said, the plan.
        nodes: What is below it, in order.
    """

    title: str
    summary: str = ""
    best: float | None = None
    data: dict[str, Any] = field(default_factory=dict)
    nodes: list["Node"] = field(default_factory=list)

    def to_data(self) -> dict[str, Any]:
        """Returns it as plain data."""
        children = [node.to_data() for node in self.nodes]
        return {"title": self.title, "summary": self.summary, "best": self.best, **self.data, "nodes": children}

    def iter_lines(self, depth: int, indent: int = 0) -> Iterator[str]:
        """Yields the tree as indented text, so many levels deep."""
        yield f"{'  ' * indent}{self.title}{': ' if self.summary else ''}{self.summary}"
        if depth:
            for node in self.nodes:
                yield from node.iter_lines(depth - 1, indent + 1)


def build_tree(run_store: store.Store, run_id: str, *, island: int | None = None) -> Node:
    """Returns the tree of a run; a step is one worldline, and its children are the turns that made it.

    Raises:
        NotFound: There is no such run.
    """
    steps: dict[tuple[int, int], dict[int, list[store.Row]]] = {}
    for row in run_store.candidates(run_id):
        if row.step and not row.is_draft and island in (None, row.island):
            generation = row.meta.get("generation", 0)
            key = row.island, generation if isinstance(generation, int) else 0
            steps.setdefault(key, {}).setdefault(row.step, []).append(row)
    islands: dict[int, list[Node]] = {}
    for (where, generation), rows_by_step in sorted(steps.items()):
        worldlines = [_make_worldline(step, rows) for step, rows in sorted(rows_by_step.items())]
        islands.setdefault(where, []).append(_make_branch(f"generation {generation + 1}", worldlines, "worldlines"))
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
    parents = ", ".join(rows[0].parents) or "nobody: begun anew"
    node = _make_branch(f"worldline {step}", turns, "turns")
    node.summary = f"from {parents}; {node.summary}"
    node.data = {"parents": list(rows[0].parents)}
    return node


def _make_turn(position: int, row: store.Row) -> Node:
    critic = str(row.meta.get("critic", ""))
    feedback = row.failure or row.feedback.partition("\n")[0]
    summary = f"{row.id}, score {format_number(row.score)}"
    summary += f"; judge: {feedback}" if feedback else ""
    summary += f"; critic: {critic.strip().partition('\n')[0]}" if critic.strip() else ""
    data = {"id": row.id, "critic": critic, "judge": row.failure or row.feedback, "content": row.content}
    return Node(f"turn {position}", summary, row.score, data)

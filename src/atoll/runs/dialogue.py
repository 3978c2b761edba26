"""A run as a tree to read: run, island, generation, worldline, turn; each with a summary of what is below it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any

from atoll import store
from atoll.runs.text import number


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
        below = [each.to_data() for each in self.nodes]
        return {"title": self.title, "summary": self.summary, "best": self.best, **self.data, "nodes": below}

    def lines(self, depth: int, indent: int = 0) -> Iterator[str]:
        """Yields the tree as indented text, so many levels deep."""
        yield f"{'  ' * indent}{self.title}{': ' if self.summary else ''}{self.summary}"
        if depth:
            for each in self.nodes:
                yield from each.lines(depth - 1, indent + 1)


def tree(kept: store.Store, run: str, *, island: int | None = None) -> Node:
    """Returns the tree of a run; a step is one worldline, and its children are the turns that made it.

    Raises:
        NotFound: There is no such run.
    """
    steps: dict[tuple[int, int], dict[int, list[store.Row]]] = {}
    for row in kept.candidates(run):
        if row.step and not row.is_draft and island in (None, row.island):
            generation = row.meta.get("generation", 0)
            place = row.island, generation if isinstance(generation, int) else 0
            steps.setdefault(place, {}).setdefault(row.step, []).append(row)
    islands: dict[int, list[Node]] = {}
    for (where, generation), found in sorted(steps.items()):
        lines = [_worldline(step, rows) for step, rows in sorted(found.items())]
        islands.setdefault(where, []).append(_branch(f"generation {generation + 1}", lines, "worldlines"))
    nodes = [_branch(f"island {where}", below, "generations") for where, below in sorted(islands.items())]
    return _branch(f"run {run}", nodes, "islands")


def _branch(title: str, nodes: list[Node], named: str) -> Node:
    scores = [each.best for each in nodes if each.best is not None]
    said = f"{len(nodes)} {named if len(nodes) != 1 else named[:-1]}"
    if scores:
        said += f", best {number(max(scores))}, mean {number(fmean(scores))}"
    return Node(title, said, max(scores, default=None), nodes=nodes)


def _worldline(step: int, rows: Sequence[store.Row]) -> Node:
    turns = [_turn(place, row) for place, row in enumerate(rows, 1)]
    parents = ", ".join(rows[0].parents) or "nobody: begun anew"
    made = _branch(f"worldline {step}", turns, "turns")
    made.summary = f"from {parents}; {made.summary}"
    made.data = {"parents": list(rows[0].parents)}
    return made


def _turn(place: int, row: store.Row) -> Node:
    critic = str(row.meta.get("critic", ""))
    heard = row.failure or row.feedback.partition("\n")[0]
    said = f"{row.id}, score {number(row.score)}"
    said += f"; judge: {heard}" if heard else ""
    said += f"; critic: {critic.strip().partition('\n')[0]}" if critic.strip() else ""
    data = {"id": row.id, "critic": critic, "judge": row.failure or row.feedback, "content": row.content}
    return Node(f"turn {place}", said, row.score, data)

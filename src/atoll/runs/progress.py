"""How a run came to what it has: its improvements, its islands, the line from its start to a candidate."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

from atoll import errors, store

START, BEST = "start", "best"  # names of candidates that every run has


class Scored(Protocol):
    """A candidate with its score; None: it has failed, or is not judged yet."""

    @property
    def score(self) -> float | None: ...


class Improvement(NamedTuple):
    """A candidate that was better than all before it.

    Attributes:
        evaluations: Candidates and drafts judged until then, itself included.
    """

    evaluations: int
    score: float
    id: str
    island: int


@dataclass(frozen=True, slots=True)
class Island:
    """What happened on one island.

    Attributes:
        best: The best that was proposed there, or the start where nothing was better; None before the start.
        candidates: Children proposed there.
        accepted: Those that were let in.
        migrants: Those that came from other islands.
        resets: How often it was founded anew.
    """

    index: int
    best: store.Row | None
    candidates: int
    accepted: int
    migrants: int
    resets: int

    @property
    def counts(self) -> dict[str, int]:
        return {name: getattr(self, name) for name in ("candidates", "accepted", "migrants", "resets")}

    @property
    def best_id(self) -> str | None:
        return self.best.id if self.best else None

    @property
    def best_score(self) -> float | None:
        return self.best.score if self.best else None

    def to_data(self) -> dict[str, Any]:
        return {"island": self.index, "best": self.best_id, "best_score": self.best_score, **self.counts}


@dataclass(frozen=True, slots=True)
class Link:
    """A candidate with the best of its parents.

    Attributes:
        gain: Its score above that parent's; None where one of them has no score.
    """

    row: store.Row
    parent: store.Row | None

    @property
    def gain(self) -> float | None:
        if self.parent is None or self.row.score is None or self.parent.score is None:
            return None
        return self.row.score - self.parent.score

    def to_data(self) -> dict[str, Any]:
        return {**row_data(self.row), "best_parent": self.parent.id if self.parent else None, "gain": self.gain}


def row_data(row: store.Row) -> dict[str, Any]:
    """Returns a candidate as plain data, as `--json` prints it."""
    data = {field.name: getattr(row, field.name) for field in fields(row)}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in data.items()}


def improvements(kept: store.Store, run: str) -> Sequence[Improvement]:
    """Returns the candidates that were each better than all before, in the order in which they were accepted.

    Raises:
        NotFound: There is no such run.
    """
    found: list[Improvement] = []
    for each in _accepted(kept, run):
        if not found or each.score > found[-1].score:
            found.append(each)
    return found


def _accepted(kept: store.Store, run: str) -> Iterator[Improvement]:
    """Yields what was accepted, with the number of evaluations at that time."""
    waiting: dict[str, tuple[float | None, int]] = {}  # judged, not decided: score and island
    evaluations = 0
    for record in kept.journal(run).of_kind("founded", "judged", "applied", "decided"):
        data = record.data
        decided: list[tuple[str, str]] = []
        if record.kind in ("founded", "judged"):
            waiting[data["id"]] = data["evaluation"]["score"], data.get("island", record.island)
        match record.kind:
            case "founded":
                evaluations += 1
                decided = [(data["id"], "accept")]
            case "applied":
                evaluations += data["evaluations"]
                decided = [(child["id"], child["decision"][0]) for child in data["children"]]
            case "decided":
                decided = [(data["id"], data["decision"][0])]
        for id, verdict in decided:
            score, island = waiting.get(id, (None, 0)) if verdict == "hold" else waiting.pop(id, (None, 0))
            if verdict == "accept" and score is not None:
                yield Improvement(evaluations, score, id, island)


def num_islands(kept: store.Store, run: str) -> int:
    """Returns how many islands a run has; 0 before its start.

    Raises:
        NotFound: There is no such run.
    """
    founded = next(kept.journal(run).of_kind("founded"), None)
    if founded is None:
        return 0
    said = founded.data.get("setup", {}).get("num_islands")
    return said if isinstance(said, int) else 1 + max(row.island for row in kept.candidates(run))


def islands(kept: store.Store, run: str) -> Sequence[Island]:
    """Returns what happened on each island of a run.

    Raises:
        NotFound: There is no such run.
    """
    proposed, accepted = Counter[int](), Counter[int]()
    for row in kept.candidates(run):
        if row.step and not row.is_draft:
            proposed[row.island] += 1
            accepted[row.island] += row.verdict == "accept"
    moves = Counter((record.kind, record.island) for record in kept.journal(run).of_kind("migrated", "reset"))
    return [
        Island(
            index,
            best_of_island(kept, run, index),
            proposed[index],
            accepted[index],
            moves["migrated", index],
            moves["reset", index],
        )
        for index in range(num_islands(kept, run))
    ]


def best_of_island(kept: store.Store, run: str, island: int) -> store.Row | None:
    """Returns the best that was proposed on an island, or the start where nothing was better."""
    rows = kept.candidates(run)
    start, best = rows.find("0.0"), next(iter(rows.best(island=island)), None)
    if start is None or start.score is None or best is None or best.score is None:
        return best or start
    return best if best.score > start.score else start


def candidate(kept: store.Store, run: str, name: str) -> store.Row:
    """Returns a candidate by its id, by the version it became, or as `best` or `start`.

    Raises:
        NotFound: There is none.
    """
    rows = kept.candidates(run)
    best = next(iter(rows.best()), None) if name == BEST else None
    found = best if name == BEST else rows.find("0.0" if name == START else name)
    if found is None and name in (BEST, START):
        raise errors.NotFound(f"Run {run} has no candidate with a score yet: let it run, or go on with 'atoll resume'.")
    if found is None:
        raise errors.NotFound(f"Run {run} has no candidate {name}: 'atoll best {run} -n 20' lists the best.")
    return found


def link(rows: store.Candidates, row: store.Row) -> Link:
    """Returns a candidate with the best of its parents; of equal ones the last, as engines put the best last."""
    found = [parent for parent in (rows.find(id) for id in reversed(row.parents)) if parent is not None]
    return Link(row, max(found, key=score_of, default=None))


def score_of(row: Scored) -> float:
    """Returns a score to compare by: who has none comes after everybody else."""
    return -float("inf") if row.score is None else row.score


def descent(rows: store.Candidates, row: store.Row) -> Sequence[Link]:
    """Returns the line from a candidate back to the start, over the best parent each time."""
    line = [link(rows, row)]
    seen = {row.id}
    while (parent := line[-1].parent) is not None and parent.id not in seen:
        seen.add(parent.id)
        line.append(link(rows, parent))
    return line


def ancestors(rows: store.Candidates, row: store.Row) -> Sequence[Link]:
    """Returns a candidate and all that it comes from, nearest first."""
    return [link(rows, each) for each in rows.lineage(row.id)]

"""Progress of a run: its improvements, its islands, and the lineage of a candidate."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, Protocol

from atoll import errors, store

INITIAL, BEST = "start", "best"  # names of candidates of every run
_INITIAL_NAMES = ("initial", INITIAL)


class Scored(Protocol):
    """A candidate with its score; None if it failed or is not evaluated yet."""

    @property
    def score(self) -> float | None: ...


class Improvement(NamedTuple):
    """A candidate that was better than all before it.

    Attributes:
        evaluations: Evaluations of candidates and trials so far, including its own.
    """

    evaluations: int
    score: float
    id: str
    island: int


@dataclass(frozen=True, slots=True)
class IslandSummary:
    """Statistics of one island.

    Attributes:
        best: Best candidate of the island, or the initial one if none is better; None before the start.
        candidates: Number of proposed children.
        accepted: Number of accepted children.
        migrants: Number of candidates from other islands.
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
class LineageEntry:
    """A candidate with the best of its parents.

    Attributes:
        gain: Difference to the score of that parent; None if one of them has no score.
    """

    row: store.Row
    parent: store.Row | None

    @property
    def gain(self) -> float | None:
        if self.parent is None or self.row.score is None or self.parent.score is None:
            return None
        return self.row.score - self.parent.score

    def to_data(self) -> dict[str, Any]:
        return {**row_to_data(self.row), "best_parent": self.parent.id if self.parent else None, "gain": self.gain}


def row_to_data(row: store.Row) -> dict[str, Any]:
    """Returns plain data of a candidate, as `--json` prints it."""
    data = {field.name: getattr(row, field.name) for field in fields(row)}
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in data.items()}


def find_improvements(run_store: store.Store, run_id: str) -> Sequence[Improvement]:
    """Returns each candidate that was better than all before it, in the order of acceptance."""
    improvements: list[Improvement] = []
    for accepted in _iter_accepted(run_store, run_id):
        if not improvements or accepted.score > improvements[-1].score:
            improvements.append(accepted)
    return improvements


_MUTATOR_NAME = re.compile("[a-z_]{1,20}")


class MutatorGain(NamedTuple):
    """Part of the gain of a run that one mutator found.

    Attributes:
        mutator: Name, such as `rewrite` or `tuner`.
        num_bests: New best candidates.
        gain: Sum of their gains over the best candidate before.
    """

    mutator: str
    num_bests: int
    gain: float

    def __str__(self) -> str:
        return f"{self.mutator} {self.gain:+.6g} in {self.num_bests} new best{'' if self.num_bests == 1 else 's'}"


def compute_mutator_gains(run_store: store.Store, run_id: str) -> Sequence[MutatorGain]:
    """Divides the gain of a run among the mutators that found new best candidates, the largest first."""
    rows, gains = run_store.candidates(run_id), dict[str, MutatorGain]()
    improvements = find_improvements(run_store, run_id)
    for before, after in itertools.pairwise(improvements):
        row = rows.find(after.id)
        name = str(row.meta.get("engine")) if row else ""
        name = name if _MUTATOR_NAME.fullmatch(name) else "other"
        _, num_bests, gain = gains.get(name, MutatorGain(name, 0, 0.0))
        gains[name] = MutatorGain(name, num_bests + 1, gain + after.score - before.score)
    return sorted(gains.values(), key=lambda gain: -gain.gain)


def _iter_accepted(run_store: store.Store, run_id: str) -> Iterator[Improvement]:
    """Yields the accepted candidates with the number of evaluations at that time."""
    pending: dict[str, tuple[float | None, int]] = {}  # score and island of undecided candidates
    evaluations = 0
    for record in run_store.journal(run_id).read_kinds("founded", "judged", "applied", "decided"):
        data = record.data
        decisions: list[tuple[str, str]] = []
        if record.kind in ("founded", "judged"):
            pending[data["id"]] = data["evaluation"]["score"], data.get("island", record.island)
        match record.kind:
            case "founded":
                evaluations += 1 + data["evaluation"].get("repeats", 0)
                decisions = [(data["id"], "accept")]
            case "applied":
                evaluations += data["evaluations"]
                decisions = [(child["id"], child["decision"][0]) for child in data["children"]]
            case "decided":
                decisions = [(data["id"], data["decision"][0])]
        for id, verdict in decisions:
            score, island = pending.get(id, (None, 0)) if verdict == "hold" else pending.pop(id, (None, 0))
            if verdict == "accept" and score is not None:
                yield Improvement(evaluations, score, id, island)


def count_islands(run_store: store.Store, run_id: str) -> int:
    """Returns the number of islands of a run; 0 before its start."""
    initial_record = next(run_store.journal(run_id).read_kinds("founded"), None)
    if initial_record is None:
        return 0
    count = initial_record.data.get("setup", {}).get("num_islands")
    return count if isinstance(count, int) else 1 + max(row.island for row in run_store.candidates(run_id))


def summarize_islands(run_store: store.Store, run_id: str) -> Sequence[IslandSummary]:
    """Returns statistics of each island of a run."""
    proposed, accepted = Counter[int](), Counter[int]()
    for row in run_store.candidates(run_id):
        if row.step and not row.is_draft:
            proposed[row.island] += 1
            accepted[row.island] += row.verdict == "accept"
    records = run_store.journal(run_id).read_kinds("migrated", "reset")
    moves = Counter((record.kind, record.island) for record in records)
    summaries = list[IslandSummary]()
    for index in range(count_islands(run_store, run_id)):
        best, counts = get_best_of_island(run_store, run_id, index), (proposed[index], accepted[index])
        summaries.append(IslandSummary(index, best, *counts, moves["migrated", index], moves["reset", index]))
    return summaries


def get_best_of_island(run_store: store.Store, run_id: str, island: int) -> store.Row | None:
    """Returns the best candidate of an island, or the initial one if none is better."""
    rows = run_store.candidates(run_id)
    initial, best = rows.find("0.0"), next(iter(rows.list_best(island=island)), None)
    if initial is None or initial.score is None or best is None or best.score is None:
        return best or initial
    return best if best.score > initial.score else initial


def find_candidate(run_store: store.Store, run_id: str, name: str) -> store.Row:
    """Returns a candidate by its id, by the version it became, or as `best` or `initial` (or `start`).

    Raises:
        NotFound: The run has no such candidate.
    """
    rows = run_store.candidates(run_id)
    best = next(iter(rows.list_best()), None) if name == BEST else None
    row = best if name == BEST else rows.find("0.0" if name in _INITIAL_NAMES else name)
    if row is None and name in (BEST, *_INITIAL_NAMES):
        raise errors.NotFound(
            f"Run {run_id} has no candidate with a score yet. Wait, or continue it with 'atoll resume {run_id}'."
        )
    if row is None:
        raise errors.NotFound(f"Run {run_id} has no candidate {name}. 'atoll best {run_id} -n 20' lists the best.")
    return row


def make_lineage_entry(rows: store.Candidates, row: store.Row) -> LineageEntry:
    """Returns a candidate with its best parent; of equal parents the last, since mutators put the best last."""
    parents = [parent for parent in (rows.find(id) for id in reversed(row.parents)) if parent is not None]
    return LineageEntry(row, max(parents, key=get_sort_score, default=None))


def get_sort_score(row: Scored) -> float:
    """Returns a score for sorting; candidates without a score come last."""
    return -float("inf") if row.score is None else row.score


def get_best_lineage(rows: store.Candidates, row: store.Row) -> Sequence[LineageEntry]:
    """Returns the lineage of a candidate along the best parents, back to the initial candidate."""
    lineage = [make_lineage_entry(rows, row)]
    seen_ids = {row.id}
    while (parent := lineage[-1].parent) is not None and parent.id not in seen_ids:
        seen_ids.add(parent.id)
        lineage.append(make_lineage_entry(rows, parent))
    return lineage


def get_lineage(rows: store.Candidates, row: store.Row) -> Sequence[LineageEntry]:
    """Returns a candidate and all its ancestors, nearest first."""
    return [make_lineage_entry(rows, ancestor) for ancestor in rows.get_lineage(row.id)]

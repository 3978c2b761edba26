"""What candidates are like: their measures, their cells in a map, and who is beaten by nobody.

The pools of a run live in its process; what stands here is read from the store: the best of each cell of a map of two
features, among the best that were accepted. `diversity`, which a pool measures against its first programs, is told here
by the distance from the start.
"""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from atoll.store import decoding
from atoll.store.census import CandidateQueries, CandidateHead

CHUNK = 500
MAX_CANDIDATES = 6000
MAX_FRONT = 200
NUM_BINS = 10
LENGTH, DISTANCE = "complexity", "diversity"
DEFAULT_FEATURES = (LENGTH, DISTANCE)


class CandidateFeatures(NamedTuple):
    """A candidate in measures."""

    id: str
    island: int
    score: float
    metrics: Mapping[str, float]
    scores: tuple[float, ...]


class MapCell(NamedTuple):
    """A cell of the map with the best that fell into it."""

    x: int
    y: int
    score: float
    id: str
    size: int


class _Evaluation(msgspec.Struct):
    scores: tuple[float, ...] = ()
    metrics: dict[str, float] = {}


class _EvaluatedRecord(msgspec.Struct):
    content: str | None = ""
    evaluation: _Evaluation | None = None


_evaluated_reader = decoding.JSONReader(_EvaluatedRecord)


def load_features(queries: CandidateQueries, seconds: float) -> tuple[Sequence[CandidateFeatures], bool]:
    """Returns the best that were accepted, for so many seconds at most, and whether those are all."""
    deadline = time.monotonic() + seconds
    heads = queries.list_best(MAX_CANDIDATES)
    initial_lines = _load_initial_lines(queries)
    features: list[CandidateFeatures] = []
    for offset in range(0, len(heads), CHUNK):
        chunk = heads[offset : offset + CHUNK]
        features += _iter_features(chunk, queries.load_contents(chunk), initial_lines)
        if time.monotonic() >= deadline and offset + CHUNK < len(heads):
            return features, False
    return features, len(heads) < MAX_CANDIDATES


def bin_features(candidates: Sequence[CandidateFeatures], names: Sequence[str], num_bins: int = NUM_BINS) -> Mapping[str, list[MapCell]]:
    """Returns the cells of each island's map of two features, by the island as text."""
    scales = [_scale([candidate.metrics[name] for candidate in candidates if name in candidate.metrics]) for name in names[:2]]
    cells_by_island: dict[str, dict[tuple[int, int], MapCell]] = {}
    for each in candidates:
        if any(name not in each.metrics for name in names[:2]):
            continue
        position = [_bin(each.metrics[name], scale, num_bins) for name, scale in zip(names, scales, strict=False)]
        x, y = position[0], position[1] if len(position) > 1 else 0
        cells = cells_by_island.setdefault(str(each.island), {})
        current = cells.get((x, y))
        if current is None or each.score > current.score:
            cells[x, y] = MapCell(x, y, each.score, each.id, 1 + (current.size if current else 0))
        else:
            cells[x, y] = current._replace(size=current.size + 1)
    return {island: list(cells.values()) for island, cells in cells_by_island.items()}


def find_front(candidates: Sequence[CandidateFeatures]) -> Sequence[CandidateFeatures]:
    """Returns those that nobody is at least as good as on every instance and better on one, the best first.

    Where candidates have no scores by instance, their first two measures take that place.
    """
    rows = [(candidate, candidate.scores or tuple(list(candidate.metrics.values())[:2])) for candidate in candidates]
    width = max((len(scores) for _, scores in rows), default=0)
    rows = [(candidate, scores) for candidate, scores in rows if len(scores) == width and width > 1]
    front_rows: list[tuple[CandidateFeatures, tuple[float, ...]]] = []
    for each, scores in rows:  # by score: who comes later can hardly beat who is there
        if len(front_rows) >= MAX_FRONT:
            break
        if not any(all(a >= b for a, b in zip(other, scores, strict=True)) for _, other in front_rows):
            front_rows.append((each, scores))
    return [candidate for candidate, _ in front_rows]


def choose_features(config: Mapping[str, Any], candidates: Sequence[CandidateFeatures]) -> list[str]:
    """Returns the two features of a run's map: those it was set up with, else length and distance from the start."""
    task = config.get("task")
    configured = task.get("features") if isinstance(task, Mapping) else None
    names = [str(name) for name in configured or DEFAULT_FEATURES]
    available = set().union(*(candidate.metrics for candidate in candidates[:CHUNK])) if candidates else set[str]()
    usable = [name for name in names if name in available]
    return (usable + [name for name in DEFAULT_FEATURES if name not in usable])[:2]


def _iter_features(heads: Sequence[CandidateHead], texts: Mapping[int, str], initial_lines: frozenset[str]) -> Iterator[CandidateFeatures]:
    for head in heads:
        try:
            record = _evaluated_reader.read(texts.get(head.seq, "{}"))
        except msgspec.ValidationError:
            continue  # a measure that is no number, of a judge that is not ours
        if head.score is None or record.evaluation is None:
            continue
        content = record.content or ""
        derived = {LENGTH: float(len(content)), DISTANCE: _distance(content, initial_lines), "score": head.score}
        metrics = {**derived, **record.evaluation.metrics}
        yield CandidateFeatures(head.id, head.island, head.score, metrics, record.evaluation.scores)


def _load_initial_lines(queries: CandidateQueries) -> frozenset[str]:
    heads = list(queries.find(["0.0"]).values())
    texts = queries.load_contents(heads)
    content = _evaluated_reader.read(next(iter(texts.values()))).content if texts else ""
    return _split_lines(content or "")


def _split_lines(content: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, content.splitlines())))


def _distance(content: str, initial_lines: frozenset[str]) -> float:
    lines = _split_lines(content)
    union_size = len(lines | initial_lines)
    return 1.0 - len(lines & initial_lines) / union_size if union_size else 0.0


def _scale(values: Sequence[float]) -> tuple[float, float]:
    finite = [value for value in values if math.isfinite(value)]
    return min(finite, default=0.0), max(finite, default=0.0)


def _bin(value: float, scale: tuple[float, float], num_bins: int) -> int:
    low, high = scale
    if high <= low or not math.isfinite(value):
        return 0
    # In halves: from the least number that there is to the greatest is further than any number.
    return min(num_bins - 1, int((value / 2 - low / 2) / (high / 2 - low / 2) * num_bins)) if high / 2 > low / 2 else 0

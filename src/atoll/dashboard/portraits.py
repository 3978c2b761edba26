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
from atoll.store.census import Census, Head

CHUNK = 500
MAX_PORTRAITS = 6000
MAX_FRONT = 200
NUM_BINS = 10
LENGTH, DISTANCE = "complexity", "diversity"
USUAL = (LENGTH, DISTANCE)


class Portrait(NamedTuple):
    """A candidate in measures."""

    id: str
    island: int
    score: float
    measures: Mapping[str, float]
    scores: tuple[float, ...]


class Cell(NamedTuple):
    """A cell of the map with the best that fell into it."""

    x: int
    y: int
    score: float
    id: str
    size: int


class _Evaluation(msgspec.Struct):
    scores: tuple[float, ...] = ()
    metrics: dict[str, float] = {}


class _Judged(msgspec.Struct):
    content: str | None = ""
    evaluation: _Evaluation | None = None


_judged = decoding.Reader(_Judged)


def portraits(census: Census, seconds: float) -> tuple[Sequence[Portrait], bool]:
    """Returns the best that were accepted, for so many seconds at most, and whether those are all."""
    deadline = time.monotonic() + seconds
    heads = census.best(MAX_PORTRAITS)
    start = _start(census)
    found: list[Portrait] = []
    for place in range(0, len(heads), CHUNK):
        chosen = heads[place : place + CHUNK]
        found += _read(chosen, census.contents(chosen), start)
        if time.monotonic() >= deadline and place + CHUNK < len(heads):
            return found, False
    return found, len(heads) < MAX_PORTRAITS


def bins(portraits: Sequence[Portrait], names: Sequence[str], num_bins: int = NUM_BINS) -> Mapping[str, list[Cell]]:
    """Returns the cells of each island's map of two features, by the island as text."""
    scales = [_scale([each.measures[name] for each in portraits if name in each.measures]) for name in names[:2]]
    found: dict[str, dict[tuple[int, int], Cell]] = {}
    for each in portraits:
        if any(name not in each.measures for name in names[:2]):
            continue
        place = [_bin(each.measures[name], scale, num_bins) for name, scale in zip(names, scales, strict=False)]
        x, y = place[0], place[1] if len(place) > 1 else 0
        cells = found.setdefault(str(each.island), {})
        held = cells.get((x, y))
        if held is None or each.score > held.score:
            cells[x, y] = Cell(x, y, each.score, each.id, 1 + (held.size if held else 0))
        else:
            cells[x, y] = held._replace(size=held.size + 1)
    return {island: list(cells.values()) for island, cells in found.items()}


def front(portraits: Sequence[Portrait]) -> Sequence[Portrait]:
    """Returns those that nobody is at least as good as on every instance and better on one, the best first.

    Where candidates have no scores by instance, their first two measures take that place.
    """
    rows = [(each, each.scores or tuple(list(each.measures.values())[:2])) for each in portraits]
    width = max((len(scores) for _, scores in rows), default=0)
    rows = [(each, scores) for each, scores in rows if len(scores) == width and width > 1]
    kept: list[tuple[Portrait, tuple[float, ...]]] = []
    for each, scores in rows:  # by score: who comes later can hardly beat who is there
        if len(kept) >= MAX_FRONT:
            break
        if not any(all(a >= b for a, b in zip(other, scores, strict=True)) for _, other in kept):
            kept.append((each, scores))
    return [each for each, _ in kept]


def features_of(config: Mapping[str, Any], portraits: Sequence[Portrait]) -> list[str]:
    """Returns the two features of a run's map: those it was set up with, else length and distance from the start."""
    task = config.get("task")
    asked = task.get("features") if isinstance(task, Mapping) else None
    names = [str(name) for name in asked or USUAL]
    there = set().union(*(each.measures for each in portraits[:CHUNK])) if portraits else set[str]()
    known = [name for name in names if name in there]
    return (known + [name for name in USUAL if name not in known])[:2]


def _read(heads: Sequence[Head], texts: Mapping[int, str], start: frozenset[str]) -> Iterator[Portrait]:
    for head in heads:
        try:
            judged = _judged.read(texts.get(head.seq, "{}"))
        except msgspec.ValidationError:
            continue  # a measure that is no number, of a judge that is not ours
        if head.score is None or judged.evaluation is None:
            continue
        content = judged.content or ""
        own = {LENGTH: float(len(content)), DISTANCE: _distance(content, start), "score": head.score}
        measures = {**own, **judged.evaluation.metrics}
        yield Portrait(head.id, head.island, head.score, measures, judged.evaluation.scores)


def _start(census: Census) -> frozenset[str]:
    heads = list(census.find(["0.0"]).values())
    texts = census.contents(heads)
    content = _judged.read(next(iter(texts.values()))).content if texts else ""
    return _lines(content or "")


def _lines(content: str) -> frozenset[str]:
    return frozenset(filter(None, map(str.strip, content.splitlines())))


def _distance(content: str, start: frozenset[str]) -> float:
    lines = _lines(content)
    either = len(lines | start)
    return 1.0 - len(lines & start) / either if either else 0.0


def _scale(values: Sequence[float]) -> tuple[float, float]:
    finite = [each for each in values if math.isfinite(each)]
    return min(finite, default=0.0), max(finite, default=0.0)


def _bin(value: float, scale: tuple[float, float], num_bins: int) -> int:
    low, high = scale
    if high <= low or not math.isfinite(value):
        return 0
    # In halves: from the least number that there is to the greatest is further than any number.
    return min(num_bins - 1, int((value / 2 - low / 2) / (high / 2 - low / 2) * num_bins)) if high / 2 > low / 2 else 0

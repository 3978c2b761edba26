"""Best and mean of every island over evaluations and over cost, in as many points as a screen shows."""

from collections.abc import Sequence

from pydantic import BaseModel

from atoll.dashboard.digest import Digest
from atoll.store.census import Bucket, Census

MAX_POINTS = 500  # of one line
MAX_NUMBERS = 12_000  # points of all lines together


class Line(BaseModel):
    """One line. All lists are of one length; `evaluations`, `cost_usd` and `tokens` are those of the whole run.

    Attributes:
        best: The best so far.
        mean: Of what was judged in the steps since the point before; null: nothing had a score.
    """

    island: int | None
    step: list[int]
    evaluations: list[int]
    cost_usd: list[float]
    tokens: list[int]
    best: list[float | None]
    mean: list[float | None]


class Curve(BaseModel):
    """The whole run as one line (its `island` is null), and each of its islands.

    `steps_per_point` is how many steps a point stands for. Until `is_counted` the axes of cost are too short.
    """

    run: str
    whole: Line
    islands: list[Line]
    steps_per_point: int
    is_counted: bool


def num_islands(digest: Digest) -> int:
    """Returns how many islands the set-up of a run says; 0: it says nothing."""
    found = digest.setup.get("num_islands")
    return found if isinstance(found, int) else 0


def curve(census: Census, digest: Digest) -> Curve:
    """Returns the curves of a run."""
    most = max(20, min(MAX_POINTS, MAX_NUMBERS // max(1, num_islands(digest))))
    width = -(-(census.last_step() + 1) // most)
    buckets = census.buckets(width)
    start = next((each.best for each in buckets if each.step == 0), None)
    by_island: dict[int, list[Bucket]] = {}
    for each in buckets:
        by_island.setdefault(each.island, []).append(each)
    lines = [_line(found, digest, island, start) for island, found in sorted(by_island.items())]
    return Curve(
        run=digest.run,
        whole=_line(_merged(buckets, width), digest, None, None),
        islands=lines,
        steps_per_point=width,
        is_counted=digest.is_counted,
    )


def _merged(buckets: Sequence[Bucket], width: int) -> list[Bucket]:
    found: dict[int, Bucket] = {}
    for each in buckets:
        place = each.step // width
        found[place] = _added(found[place], each) if place in found else each
    return [found[place] for place in sorted(found)]


def _added(one: Bucket, other: Bucket) -> Bucket:
    scores = [each for each in (one.best, other.best) if each is not None]
    means = [(each.mean, each.size) for each in (one, other) if each.mean is not None]
    weight = sum(size for _, size in means)
    mean = sum(value * size for value, size in means) / weight if weight else None
    return Bucket(-1, max(one.step, other.step), max(scores, default=None), mean, one.size + other.size)


def _line(buckets: list[Bucket], digest: Digest, island: int | None, start: float | None) -> Line:
    line = Line(island=island, step=[], evaluations=[], cost_usd=[], tokens=[], best=[], mean=[])
    best = start
    for each in buckets:
        if each.best is not None:
            best = each.best if best is None else max(best, each.best)
        evaluations, usd, tokens = digest.at_step(each.step)
        line.step.append(each.step)
        line.evaluations.append(evaluations)
        line.cost_usd.append(usd)
        line.tokens.append(tokens)
        line.best.append(best)
        line.mean.append(each.mean)
    return line

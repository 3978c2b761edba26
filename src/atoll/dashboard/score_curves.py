"""Curves of the best and mean score of each island over evaluations and cost, with a limited number of points."""

import math
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, Field

from atoll.dashboard.run_totals import RunTotals
from atoll.store.candidate_queries import CandidateQueries, ScoreBucket

MAX_POINTS = 500  # per line
MAX_TOTAL_POINTS = 12_000  # all lines together


class Line(BaseModel):
    """One line. All lists have the same length; `evaluations`, `cost_usd` and `tokens` count the whole run.

    Attributes:
        best: Best score so far.
        mean: Mean score of all evaluations so far; null: no score.
        seconds: Elapsed time; null: the records of the run have no times.
    """

    island: int | None
    step: list[int]
    evaluations: list[int]
    cost_usd: list[float]
    tokens: list[int]
    calls: list[int]
    seconds: list[float | None]
    best: list[float | None]
    mean: list[float | None]


class Curve(BaseModel):
    """One line for the run (`island` is null) and one for each island.

    `steps_per_point` is the number of iterations per point. Until `is_counted`, the cost axes are incomplete.
    """

    run: str
    run_line: Annotated[Line, Field(serialization_alias="whole")]
    islands: list[Line]
    steps_per_point: int
    is_counted: bool


def get_num_islands(totals: RunTotals) -> int:
    """Returns the number of islands in the setup of a run; 0: unknown."""
    count = totals.setup.get("num_islands")
    return count if isinstance(count, int) else 0


def compute_curve(queries: CandidateQueries, totals: RunTotals) -> Curve:
    max_points = max(20, min(MAX_POINTS, MAX_TOTAL_POINTS // max(1, get_num_islands(totals))))
    width = -(-(queries.get_last_step() + 1) // max_points)
    buckets = queries.list_buckets(width)
    initial_score = next((bucket.best for bucket in buckets if bucket.step == 0), None)
    by_island: dict[int, list[ScoreBucket]] = {}
    for bucket in buckets:
        by_island.setdefault(bucket.island, []).append(bucket)
    lines = [
        _make_line(island_buckets, totals, island, initial_score)
        for island, island_buckets in sorted(by_island.items())
    ]
    return Curve(
        run=totals.run,
        run_line=_make_line(_merge_islands(buckets, width), totals, None, None),
        islands=lines,
        steps_per_point=width,
        is_counted=totals.is_counted,
    )


def _merge_islands(buckets: Sequence[ScoreBucket], width: int) -> list[ScoreBucket]:
    merged: dict[int, ScoreBucket] = {}
    for bucket in buckets:
        index = bucket.step // width
        merged[index] = _add_buckets(merged[index], bucket) if index in merged else bucket
    return [merged[index] for index in sorted(merged)]


def _add_buckets(first: ScoreBucket, second: ScoreBucket) -> ScoreBucket:
    scores = [score for score in (first.best, second.best) if score is not None]
    means = [(bucket.mean, bucket.size) for bucket in (first, second) if bucket.mean is not None]
    weight = sum(size for _, size in means)
    mean = sum(value * size for value, size in means) / weight if weight else None
    return ScoreBucket(-1, max(first.step, second.step), max(scores, default=None), mean, first.size + second.size)


def _make_line(buckets: list[ScoreBucket], totals: RunTotals, island: int | None, initial_score: float | None) -> Line:
    columns: dict[str, Any] = {name: [] for name in Line.model_fields if name != "island"}
    line = Line(island=island, **columns)
    best, sum_scores, num_scores = initial_score, 0.0, 0
    for bucket in buckets:
        if bucket.best is not None:
            best = bucket.best if best is None else max(best, bucket.best)
        if bucket.mean is not None:
            sum_scores, num_scores = sum_scores + bucket.mean * bucket.size, num_scores + bucket.size
        line.step.append(bucket.step)
        for name, value in totals.get_usage_at(bucket.step)._asdict().items():
            getattr(line, name).append(value)
        line.best.append(best)
        mean = sum_scores / num_scores if num_scores else None
        line.mean.append(mean if mean is not None and math.isfinite(mean) else None)
    return line

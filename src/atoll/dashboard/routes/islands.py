"""Islands of a run: clusters, feature maps, Pareto fronts, migrations and resets."""

import math
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import msgspec
from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from atoll.dashboard import score_curves, text_limits
from atoll.dashboard.dependencies import CacheDep, RunId, StatusReaderDep
from atoll.dashboard.record_search import RecordSearch, RecordSearchCache
from atoll.dashboard.run_status import RunStatusReader
from atoll.store.candidate_queries import CandidateHead, CandidateQueries
from atoll.store.records import json_codec

CHUNK = 500
MAX_CANDIDATES = 6000
MAX_FRONT = 200
NUM_BINS = 10
LENGTH, DISTANCE = "complexity", "diversity"
DEFAULT_FEATURES = (LENGTH, DISTANCE)


class CandidateFeatures(NamedTuple):
    """Score, metrics and scores by instance of a candidate."""

    id: str
    island: int
    score: float
    metrics: Mapping[str, float]
    scores: tuple[float, ...]


class MapCell(NamedTuple):
    """A cell of the feature map with its best candidate."""

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


_evaluated_reader = json_codec.JSONReader(_EvaluatedRecord)


def load_features(queries: CandidateQueries, seconds: float) -> tuple[Sequence[CandidateFeatures], bool]:
    """Returns the best accepted candidates read within `seconds`, and whether these are all."""
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


def load_metric(queries: CandidateQueries, heads: Sequence[CandidateHead], name: str) -> dict[str, float]:
    """Returns a metric of candidates by id; skips those without it."""
    features = _iter_features(heads, queries.load_contents(heads), frozenset())
    values = {item.id: item.metrics[name] for item in features if name in item.metrics}
    return {id: value for id, value in values.items() if math.isfinite(value)}


def bin_features(
    candidates: Sequence[CandidateFeatures], names: Sequence[str], num_bins: int = NUM_BINS
) -> Mapping[str, list[MapCell]]:
    """Returns the cells of the two-feature map of each island; keys are island numbers as text."""
    scales = [
        _scale([candidate.metrics[name] for candidate in candidates if name in candidate.metrics]) for name in names[:2]
    ]
    cells_by_island: dict[str, dict[tuple[int, int], MapCell]] = {}
    for candidate in candidates:
        if any(name not in candidate.metrics for name in names[:2]):
            continue
        position = [_bin(candidate.metrics[name], scale, num_bins) for name, scale in zip(names, scales, strict=False)]
        x, y = position[0], position[1] if len(position) > 1 else 0
        cells = cells_by_island.setdefault(str(candidate.island), {})
        current = cells.get((x, y))
        if current is None or candidate.score > current.score:
            cells[x, y] = MapCell(x, y, candidate.score, candidate.id, 1 + (current.size if current else 0))
        else:
            cells[x, y] = current._replace(size=current.size + 1)
    return {island: list(cells.values()) for island, cells in cells_by_island.items()}


def find_front(candidates: Sequence[CandidateFeatures]) -> Sequence[CandidateFeatures]:
    """Returns the Pareto front over the scores by instance, best score first.

    Candidates without scores by instance are compared by their first two metrics.
    """
    rows = [(candidate, candidate.scores or tuple(list(candidate.metrics.values())[:2])) for candidate in candidates]
    width = max((len(scores) for _, scores in rows), default=0)
    rows = [(candidate, scores) for candidate, scores in rows if len(scores) == width and width > 1]
    front_rows: list[tuple[CandidateFeatures, tuple[float, ...]]] = []
    for candidate, scores in rows:  # ordered by score, so later rows rarely dominate earlier ones
        if len(front_rows) >= MAX_FRONT:
            break
        if not any(all(a >= b for a, b in zip(other, scores, strict=True)) for _, other in front_rows):
            front_rows.append((candidate, scores))
    return [candidate for candidate, _ in front_rows]


def choose_features(config: Mapping[str, Any], candidates: Sequence[CandidateFeatures]) -> list[str]:
    """Returns the two features of the map: the configured ones, else length and distance from the initial program."""
    task = config.get("task")
    configured = task.get("features") if isinstance(task, Mapping) else None
    names = [str(name) for name in configured or DEFAULT_FEATURES]
    available = set().union(*(candidate.metrics for candidate in candidates[:CHUNK])) if candidates else set[str]()
    usable = [name for name in names if name in available]
    return (usable + [name for name in DEFAULT_FEATURES if name not in usable])[:2]


def _iter_features(
    heads: Sequence[CandidateHead], texts: Mapping[int, str], initial_lines: frozenset[str]
) -> Iterator[CandidateFeatures]:
    for head in heads:
        try:
            record = _evaluated_reader.read(texts.get(head.seq, "{}"))
        except msgspec.ValidationError:
            continue  # a custom evaluator wrote a metric that is not a number
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
    # Halved, since the range of very large numbers would overflow.
    return min(num_bins - 1, int((value / 2 - low / 2) / (high / 2 - low / 2) * num_bins)) if high / 2 > low / 2 else 0


READ_SECONDS = 0.2
MAX_MOVES = 300
MAX_CLUSTERS = 30  # per island
MAX_ISLANDS = 1000

router = APIRouter(prefix="/api/runs/{run}", tags=["islands"])


class Cluster(BaseModel):
    """Candidates of an island with the same score."""

    score: float
    size: int
    id: str


class Cell(BaseModel):
    """A cell of the map: position, best candidate and number of candidates."""

    x: int
    y: int
    score: float
    id: str
    size: int


class Point(BaseModel):
    """A candidate on the Pareto front."""

    id: str
    score: float
    metrics: dict[str, float]
    scores: list[float]


class Island(BaseModel):
    island: int
    best: str | None
    best_score: float | None
    candidates: int
    drafts: int
    accepted: int
    migrants: int
    resets: int
    clusters: list[Cluster]
    cells: list[Cell]
    front: list[Point]


class Move(BaseModel):
    """A migration to an island, or the reset of an island."""

    kind: str
    seq: int
    step: int
    island: int
    origin: Annotated[int | None, Field(serialization_alias="from")]
    candidates: list[str]
    score: float | None
    at: float | None


class Feature(BaseModel):
    """A feature of the map with ten bins from `low` to `high`."""

    name: str
    low: float
    high: float


class Islands(BaseModel):
    """All islands. `is_whole` is false if the maps contain only the best accepted candidates."""

    run: str
    islands: list[Island]
    features: list[Feature]
    moves: list[Move]
    looked: int
    is_whole: bool


@router.get("/islands")
def show_islands(request: Request, run: RunId, read_status: StatusReaderDep, cache: CacheDep) -> Islands:
    """Returns the candidates of each island, the migrations and the resets."""
    status = read_status(run, READ_SECONDS)
    search_cache: RecordSearchCache = request.app.state.search_cache
    return cache.get(("islands", run), status.totals.end, lambda: _build_islands(run, status, search_cache.get(run)))


def _build_islands(run: str, status: RunStatusReader, search: RecordSearch) -> Islands:
    queries = status.candidate_queries
    candidates, is_complete = load_features(queries, READ_SECONDS)
    feature_names = choose_features(status.run.config, candidates)
    moves, oldest_searched = _find_moves(search)
    return Islands(
        run=run,
        islands=_make_rows(queries, score_curves.get_num_islands(status.totals), candidates, feature_names, moves),
        features=[_make_feature(name, candidates) for name in feature_names],
        moves=moves,
        looked=oldest_searched,
        is_whole=is_complete,
    )


def _make_rows(
    queries: CandidateQueries, num_islands: int, candidates: Any, feature_names: list[str], moves: list[Move]
) -> list[Island]:
    counts = {row.island: row for row in queries.count_by_island()}
    cells, clusters = bin_features(candidates, feature_names), queries.list_clusters(MAX_CLUSTERS)
    rows = []
    for index in sorted({*range(min(num_islands, MAX_ISLANDS)), *counts})[:MAX_ISLANDS]:
        best, count = queries.list_best(island=index), counts.get(index)
        front = find_front([candidate for candidate in candidates if candidate.island == index])
        rows.append(
            Island(
                island=index,
                best=best[0].id if best else None,
                best_score=best[0].score if best else None,
                candidates=count.children if count else 0,
                drafts=count.drafts if count else 0,
                accepted=count.accepted if count else 0,
                migrants=sum(move.island == index and move.kind == "migrated" for move in moves),
                resets=sum(move.island == index and move.kind == "reset" for move in moves),
                clusters=[Cluster(**cluster._asdict()) for cluster in clusters.get(index, ())],
                cells=[Cell(**cell._asdict()) for cell in cells.get(str(index), ())],
                front=[_make_point(candidate) for candidate in front],
            )
        )
    return rows


def _make_point(candidate: CandidateFeatures) -> Point:
    return Point(
        id=candidate.id,
        score=candidate.score,
        metrics=text_limits.to_json_data(candidate.metrics),
        scores=list(candidate.scores[:100]),
    )


def _make_feature(name: str, candidates: Any) -> Feature:
    values = [candidate.metrics[name] for candidate in candidates if name in candidate.metrics]
    return Feature(name=text_limits.replace_invalid(name), low=min(values, default=0.0), high=max(values, default=0.0))


def _find_moves(search: RecordSearch) -> tuple[list[Move], int]:
    """Returns the newest migrations and resets, and the oldest record that was searched."""
    page = search.search(("migrated", "reset"), "", search.queries.get_end() + 1, MAX_MOVES, READ_SECONDS)
    moves = []
    for event in page.events:
        data = json_codec.dict_reader.read(event.data)
        fn, founders = data.get("fn") or {}, data.get("founders") or []
        moves.append(
            Move(
                kind=event.kind,
                seq=event.seq,
                step=event.step,
                island=event.island,
                origin=fn.get("island"),
                candidates=[text_limits.replace_invalid(str(candidate.get("id"))) for candidate in (founders or [fn])][
                    :20
                ],
                score=(fn.get("evaluation") or {}).get("score"),
                at=event.at,
            )
        )
    return moves, page.oldest_searched

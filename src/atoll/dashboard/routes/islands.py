"""The islands of a run: what lives on each, its map, its front, and who went from one to another."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from atoll.dashboard import curves, plain, portraits, texts
from atoll.dashboard.finding import RecordSearch, RecordSearchCache
from atoll.dashboard.given import StatusReaderDep, CacheDep, RunId
from atoll.dashboard.standing import RunStatusReader
from atoll.store import census as counting
from atoll.store import decoding

READ_SECONDS = 0.2
MAX_MOVES = 300
MAX_CLUSTERS = 30  # of an island
MAX_ISLANDS = 1000

router = APIRouter(prefix="/api/runs/{run}", tags=["islands"])


class Cluster(BaseModel):
    """Candidates of an island that have the same score."""

    score: float
    size: int
    id: str


class Cell(BaseModel):
    """A cell of the map: its place, the best in it, and how many of those that were looked at fell into it."""

    x: int
    y: int
    score: float
    id: str
    size: int


class Point(BaseModel):
    """A candidate on the front, with its measures and its scores by instance."""

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
    """Somebody came to an island from another, or an island was founded anew."""

    kind: str
    seq: int
    step: int
    island: int
    origin: Annotated[int | None, Field(serialization_alias="from")]
    candidates: list[str]
    score: float | None


class Feature(BaseModel):
    """A feature of the map; a bin is a tenth of the range from `low` to `high`."""

    name: str
    low: float
    high: float


class Islands(BaseModel):
    """All islands. `is_whole` says whether all that were accepted are in the maps, or only the best of them."""

    run: str
    islands: list[Island]
    features: list[Feature]
    moves: list[Move]
    looked: int
    is_whole: bool


@router.get("/islands")
def show_islands(request: Request, run: RunId, read_status: StatusReaderDep, cache: CacheDep) -> Islands:
    """Shows what lives on each island, the migrations and the resets."""
    status = read_status(run, READ_SECONDS)
    search_cache: RecordSearchCache = request.app.state.finders
    return cache.get(("islands", run), status.totals.end, lambda: _build_islands(run, status, search_cache.get(run)))


def _build_islands(run: str, status: RunStatusReader, search: RecordSearch) -> Islands:
    queries = status.candidate_queries
    candidates, is_complete = portraits.load_features(queries, READ_SECONDS)
    feature_names = portraits.choose_features(status.run.config, candidates)
    moves, oldest_searched = _find_moves(search)
    return Islands(
        run=run,
        islands=_make_rows(queries, curves.get_num_islands(status.totals), candidates, feature_names, moves),
        features=[_make_feature(name, candidates) for name in feature_names],
        moves=moves,
        looked=oldest_searched,
        is_whole=is_complete,
    )


def _make_rows(queries: counting.CandidateQueries, num_islands: int, candidates: Any, feature_names: list[str], moves: list[Move]) -> list[Island]:
    counts = {row.island: row for row in queries.count_by_island()}
    cells, clusters = portraits.bin_features(candidates, feature_names), queries.list_clusters(MAX_CLUSTERS)
    rows = []
    for index in sorted({*range(min(num_islands, MAX_ISLANDS)), *counts})[:MAX_ISLANDS]:
        best, count = queries.list_best(island=index), counts.get(index)
        front = portraits.find_front([candidate for candidate in candidates if candidate.island == index])
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


def _make_point(candidate: portraits.CandidateFeatures) -> Point:
    return Point(id=candidate.id, score=candidate.score, metrics=plain.to_json_data(candidate.metrics), scores=list(candidate.scores[:100]))


def _make_feature(name: str, candidates: Any) -> Feature:
    values = [candidate.metrics[name] for candidate in candidates if name in candidate.metrics]
    return Feature(name=texts.replace_invalid(name), low=min(values, default=0.0), high=max(values, default=0.0))


def _find_moves(search: RecordSearch) -> tuple[list[Move], int]:
    """Returns the newest migrations and resets, and how far back they were looked for."""
    page = search.search(("migrated", "reset"), "", search.queries.get_end() + 1, MAX_MOVES, READ_SECONDS)
    moves = []
    for event in page.events:
        data = decoding.dict_reader.read(event.data)
        fn, founders = data.get("fn") or {}, data.get("founders") or []
        moves.append(
            Move(
                kind=event.kind,
                seq=event.seq,
                step=event.step,
                island=event.island,
                origin=fn.get("island"),
                candidates=[texts.replace_invalid(str(candidate.get("id"))) for candidate in (founders or [fn])][:20],
                score=(fn.get("evaluation") or {}).get("score"),
            )
        )
    return moves, page.oldest_searched

"""The islands of a run: what lives on each, its map, its front, and who went from one to another."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, Field

from atoll.dashboard import curves, plain, portraits, texts
from atoll.dashboard.finding import Finder, Finders
from atoll.dashboard.given import Looking, Remembered, RunId
from atoll.dashboard.standing import Look
from atoll.store import census as counting
from atoll.store import decoding

LOOK_SECONDS = 0.2
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
def islands(request: Request, run: RunId, looking: Looking, memo: Remembered) -> Islands:
    """Shows what lives on each island, the migrations and the resets."""
    look = looking(run, LOOK_SECONDS)
    finders: Finders = request.app.state.finders
    return memo.get(("islands", run), look.digest.end, lambda: _shown(run, look, finders.of(run)))


def _shown(run: str, look: Look, finder: Finder) -> Islands:
    census = look.census
    found, is_whole = portraits.portraits(census, LOOK_SECONDS)
    names = portraits.features_of(look.run.config, found)
    moves, looked = _moves(finder)
    return Islands(
        run=run,
        islands=_islands(census, curves.num_islands(look.digest), found, names, moves),
        features=[_feature(name, found) for name in names],
        moves=moves,
        looked=looked,
        is_whole=is_whole,
    )


def _islands(census: counting.Census, num: int, found: Any, names: list[str], moves: list[Move]) -> list[Island]:
    counts = {each.island: each for each in census.counts()}
    cells, clusters = portraits.bins(found, names), census.clusters(MAX_CLUSTERS)
    rows = []
    for index in sorted({*range(min(num, MAX_ISLANDS)), *counts})[:MAX_ISLANDS]:
        best, count = census.best(island=index), counts.get(index)
        front = portraits.front([each for each in found if each.island == index])
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
                clusters=[Cluster(**each._asdict()) for each in clusters.get(index, ())],
                cells=[Cell(**each._asdict()) for each in cells.get(str(index), ())],
                front=[_point(each) for each in front],
            )
        )
    return rows


def _point(each: portraits.Portrait) -> Point:
    return Point(id=each.id, score=each.score, metrics=plain.data(each.measures), scores=list(each.scores[:100]))


def _feature(name: str, found: Any) -> Feature:
    values = [each.measures[name] for each in found if name in each.measures]
    return Feature(name=texts.sound(name), low=min(values, default=0.0), high=max(values, default=0.0))


def _moves(finder: Finder) -> tuple[list[Move], int]:
    """Returns the newest migrations and resets, and how far back they were looked for."""
    page = finder.page(("migrated", "reset"), "", finder.events.end() + 1, MAX_MOVES, LOOK_SECONDS)
    moves = []
    for event in page.events:
        data = decoding.anything.read(event.data)
        fn, founders = data.get("fn") or {}, data.get("founders") or []
        moves.append(
            Move(
                kind=event.kind,
                seq=event.seq,
                step=event.step,
                island=event.island,
                origin=fn.get("island"),
                candidates=[texts.sound(str(each.get("id"))) for each in (founders or [fn])][:20],
                score=(fn.get("evaluation") or {}).get("score"),
            )
        )
    return moves, page.looked

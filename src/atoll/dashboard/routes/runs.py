"""The runs of a store, and one of them at a glance: how it stands, its curves, its improvements."""

import time
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

import atoll
from atoll.dashboard import curves, paging, plain, security
from atoll.dashboard.given import After, Kept, Limit, Looking, Remembered, RunId
from atoll.dashboard.routes import life
from atoll.dashboard.standing import RunRow, Used
from atoll.runs import baselines
from atoll.store.census import Census

LIST_SECONDS = 0.1  # spent at most on adding up journals, for a list and for one run
RUN_SECONDS = 0.15
CURVE_SECONDS = 0.05
BASELINE_SECONDS = 0.05
MAX_IMPROVEMENTS = 2000

router = APIRouter(prefix="/api", tags=["runs"])


class Session(BaseModel):
    """What a page needs to know before anything else."""

    version: str
    store: str
    can_change: bool


class RunPage(BaseModel):
    """Some runs, newest first. `next` is where the following page begins; null: there is none."""

    runs: list[RunRow]
    total: int
    next: str | None


class IslandSummary(BaseModel):
    island: int
    best: str | None
    best_score: float | None
    candidates: int
    drafts: int
    accepted: int
    scored: int


class BaselineSummary(BaseModel):
    """A plainer way with the same budget that a run is compared with."""

    name: str
    title: str
    run: str
    best_score: float | None
    evaluations: int
    cost_usd: float


class Overview(RunRow):
    """One run with all that the first view shows besides its curves."""

    used: Used
    config: dict[str, Any]
    setup: dict[str, Any]
    settings: dict[str, Any]
    sessions: int
    islands: list[IslandSummary]
    baselines: list[BaselineSummary]
    result: dict[str, Any]
    eta_seconds: float | None
    writer: int | None


class Improvement(BaseModel):
    id: str
    step: int
    island: int
    score: float
    evaluations: int
    cost_usd: float
    tokens: int


class Improvements(BaseModel):
    """The candidates that were each better than all before; of very many only the last."""

    improvements: list[Improvement]
    total: int


@router.get("/session")
def session(request: Request, kept: Kept) -> Session:
    """Says whose store this is, and whether this browser may change anything."""
    return Session(version=atoll.__version__, store=kept.database.name, can_change=security.can_change(request.scope))


@router.get("/runs")
def list_runs(kept: Kept, looking: Looking, limit: Limit = 100, after: After = None) -> RunPage:
    """Lists the runs, newest first."""
    found = kept.runs()
    first = paging.place(after, int)[0] if after else 0
    shown = found[max(0, first) : max(0, first) + limit]
    deadline = time.monotonic() + LIST_SECONDS
    rows = [looking(run.id, max(0.0, deadline - time.monotonic())).row() for run in shown]
    more = first + limit < len(found)
    return RunPage(runs=rows, total=len(found), next=paging.cursor(first + limit) if more else None)


@router.get("/runs/{run}")
def overview(kept: Kept, run: RunId, looking: Looking, memo: Remembered) -> Overview:
    """Shows how a run stands, what it was given and what it has found."""
    look = looking(run, RUN_SECONDS)
    digest = look.digest
    num_failed = memo.get(("failed", run), digest.end, kept.candidates(run).num_failed)
    return Overview(
        **look.row().model_dump(),
        used=look.used(num_failed),
        config=plain.data(look.run.config),
        setup=plain.data({**digest.setup, **{name: digest.started.get(name) for name in ("llm", "sandbox")}}),
        settings=plain.data({**digest.settings, **life.heard(kept, run)}),
        sessions=digest.sessions,
        islands=memo.get(("counts", run), digest.end, lambda: _islands(look.census, curves.num_islands(digest))),
        baselines=_baselines(kept, run, looking),
        result=plain.data(digest.result),
        eta_seconds=digest.eta_seconds() if look.status()[0] == "running" else None,
        writer=kept.holder(run),
    )


@router.get("/runs/{run}/curve")
def curve(run: RunId, looking: Looking, memo: Remembered) -> curves.Curve:
    """Draws best and mean of every island over evaluations and over cost, thinned out to a few hundred points."""
    look = looking(run, CURVE_SECONDS)
    stamp = look.digest.seq, look.digest.end
    return memo.get(("curve", run), stamp, lambda: curves.curve(look.census, look.digest))


@router.get("/runs/{run}/improvements")
def improvements(run: RunId, looking: Looking, memo: Remembered) -> Improvements:
    """Lists the candidates that were each better than all before."""
    look = looking(run, CURVE_SECONDS)
    found = memo.get(("improvements", run), look.digest.end, look.census.improvements)
    rows = []
    for each in found[-MAX_IMPROVEMENTS:]:
        evaluations, usd, tokens = look.digest.at_step(each.step)
        rows.append(Improvement(**each._asdict(), evaluations=evaluations, cost_usd=usd, tokens=tokens))
    return Improvements(improvements=rows, total=len(found))


def _islands(census: Census, num_islands: int) -> list[IslandSummary]:
    counts = {each.island: each for each in census.counts()}
    rows = []
    for island in sorted({*range(min(num_islands, 1000)), *counts}):
        best, count = census.best(island=island), counts.get(island)
        rows.append(
            IslandSummary(
                island=island,
                best=best[0].id if best else None,
                best_score=best[0].score if best else None,
                candidates=count.children if count else 0,
                drafts=count.drafts if count else 0,
                accepted=count.accepted if count else 0,
                scored=count.scored if count else 0,
            )
        )
    return rows


def _baselines(kept: Kept, run: str, looking: Looking) -> list[BaselineSummary]:
    rows = [(each.config["baseline"], each.id) for each in kept.runs() if each.config.get(baselines.OF) == run]
    return [_baseline(name, looking(id, BASELINE_SECONDS).row()) for name, id in rows]


def _baseline(name: str, row: RunRow) -> BaselineSummary:
    return BaselineSummary(
        name=name,
        title=baselines.NAMES.get(name, name),
        run=row.id,
        best_score=row.best_score,
        evaluations=row.evaluations,
        cost_usd=row.cost_usd,
    )

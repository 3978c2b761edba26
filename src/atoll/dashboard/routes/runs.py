"""Runs of a store: list, overview, score curves, improvements."""

import time
from typing import Any

from fastapi import APIRouter, Request
from pydantic import BaseModel

import atoll
from atoll.dashboard import dependencies, score_curves, security, text_limits
from atoll.dashboard.dependencies import After, CacheDep, Limit, RunId, StatusReaderDep, StoreDep
from atoll.dashboard.routes import episodes
from atoll.dashboard.run_status import RunRow, RunUsage
from atoll.runs import baselines
from atoll.store.candidates.queries import CandidateQueries

LIST_SECONDS = 0.1  # time limits for reading journals
RUN_SECONDS = 0.15
CURVE_SECONDS = 0.05
BASELINE_SECONDS = 0.05
MAX_IMPROVEMENTS = 2000

router = APIRouter(prefix="/api", tags=["runs"])


class Session(BaseModel):
    """Version, store and permissions of the page."""

    version: str
    store: str
    can_change: bool


class RunPage(BaseModel):
    """Runs, newest first. `next` is the cursor of the following page; null: last page."""

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
    """A baseline run with the same budget."""

    name: str
    title: str
    run: str
    best_score: float | None
    evaluations: int
    cost_usd: float


class Overview(RunRow):
    """One run as the overview shows it, without curves."""

    used: RunUsage
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
    """New best candidates in order; only the last ones if there are very many."""

    improvements: list[Improvement]
    total: int


@router.get("/session")
def show_session(request: Request, run_store: StoreDep) -> Session:
    """Returns the store, and whether the browser may make changes."""
    return Session(
        version=atoll.__version__, store=run_store.database.name, can_change=security.can_change(request.scope)
    )


@router.get("/runs")
def list_runs(run_store: StoreDep, read_status: StatusReaderDep, limit: Limit = 100, after: After = None) -> RunPage:
    """Lists the runs, newest first."""
    all_runs = run_store.list_runs()
    first = dependencies.parse_cursor(after, int)[0] if after else 0
    page_runs = all_runs[max(0, first) : max(0, first) + limit]
    deadline = time.monotonic() + LIST_SECONDS
    rows = [read_status(run.id, max(0.0, deadline - time.monotonic())).make_row() for run in page_runs]
    has_more = first + limit < len(all_runs)
    return RunPage(runs=rows, total=len(all_runs), next=dependencies.make_cursor(first + limit) if has_more else None)


@router.get("/runs/{run}")
def show_run(run_store: StoreDep, run: RunId, read_status: StatusReaderDep, cache: CacheDep) -> Overview:
    """Returns the status, configuration, usage and result of a run."""
    status = read_status(run, RUN_SECONDS)
    totals = status.totals
    num_failed = cache.get(("failed", run), totals.end, run_store.candidates(run).count_failed)
    return Overview(
        **status.make_row().model_dump(),
        used=status.compute_usage(num_failed),
        config=text_limits.to_json_data(status.run.config),
        setup=text_limits.to_json_data(
            {**totals.setup, **{name: totals.started.get(name) for name in ("llm", "sandbox")}}
        ),
        settings=text_limits.to_json_data({**totals.settings, **episodes.get_live_settings(run_store, run)}),
        sessions=totals.sessions,
        islands=cache.get(
            ("counts", run),
            totals.end,
            lambda: _summarize_islands(status.candidate_queries, score_curves.get_num_islands(totals)),
        ),
        baselines=_summarize_baselines(run_store, run, read_status),
        result=text_limits.to_json_data(totals.result),
        eta_seconds=totals.estimate_remaining_seconds() if status.get_status()[0] == "running" else None,
        writer=run_store.get_writer_pid(run),
    )


@router.get("/runs/{run}/curve")
def show_curve(run: RunId, read_status: StatusReaderDep, cache: CacheDep) -> score_curves.Curve:
    """Returns best and mean score of each island over evaluations and cost, in a few hundred points."""
    status = read_status(run, CURVE_SECONDS)
    stamp = status.totals.seq, status.totals.end
    return cache.get(("curve", run), stamp, lambda: score_curves.compute_curve(status.candidate_queries, status.totals))


@router.get("/runs/{run}/improvements")
def list_improvements(run: RunId, read_status: StatusReaderDep, cache: CacheDep) -> Improvements:
    """Lists the new best candidates in order."""
    status = read_status(run, CURVE_SECONDS)
    all_improvements = cache.get(("improvements", run), status.totals.end, status.candidate_queries.list_improvements)
    rows = []
    for improvement in all_improvements[-MAX_IMPROVEMENTS:]:
        evaluations, usd, tokens = status.totals.get_usage_at(improvement.step)
        rows.append(Improvement(**improvement._asdict(), evaluations=evaluations, cost_usd=usd, tokens=tokens))
    return Improvements(improvements=rows, total=len(all_improvements))


def _summarize_islands(queries: CandidateQueries, num_islands: int) -> list[IslandSummary]:
    counts = {row.island: row for row in queries.count_by_island()}
    rows = []
    for island in sorted({*range(min(num_islands, 1000)), *counts}):
        best, count = queries.list_best(island=island), counts.get(island)
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


def _summarize_baselines(run_store: StoreDep, run: str, read_status: StatusReaderDep) -> list[BaselineSummary]:
    rows = [
        (baseline_run.config["baseline"], baseline_run.id)
        for baseline_run in run_store.list_runs()
        if baseline_run.config.get(baselines.BASELINE_OF) == run
    ]
    return [_make_baseline_summary(name, read_status(id, BASELINE_SECONDS).make_row()) for name, id in rows]


def _make_baseline_summary(name: str, row: RunRow) -> BaselineSummary:
    return BaselineSummary(
        name=name,
        title=baselines.TITLES.get(name, name),
        run=row.id,
        best_score=row.best_score,
        evaluations=row.evaluations,
        cost_usd=row.cost_usd,
    )

"""Runs of a store: list, overview, score curves, improvements."""

import time
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from pydantic import BaseModel, Field

import atoll
from atoll.dashboard import dependencies, run_status, score_curves, security, text_limits
from atoll.dashboard.dependencies import After, CacheDep, Limit, RunId, StatusReaderDep, StoreDep
from atoll.dashboard.routes import episodes
from atoll.dashboard.routes.controls import DEFAULT_AUTHOR
from atoll.dashboard.routes.islands import load_metric
from atoll.dashboard.run_status import RunRow, RunStatusReader, RunUsage
from atoll.dashboard.run_totals import UsageAt
from atoll.runs import baselines

LIST_SECONDS = 0.1  # time limits for reading journals
RUN_SECONDS = 0.15
CURVE_SECONDS = 0.05
BASELINE_SECONDS = 0.05
MAX_IMPROVEMENTS = 2000
SCORE = "score"

MetricName = Annotated[str, Query(max_length=dependencies.MAX_TEXT, description="A metric of the evaluator.")]

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
    calls: int
    seconds: float | None
    value: float | None


class Dots(BaseModel):
    """Scored candidates as lists of the same length. `is_sample` means that some are left out."""

    ids: list[str]
    islands: list[int]
    step: list[int]
    values: list[float]
    evaluations: list[int]
    cost_usd: list[float]
    tokens: list[int]
    calls: list[int]
    seconds: list[float | None]
    is_sample: bool
    is_counted: bool


class LabelRequest(run_status.RunLabel, text_limits.RequestBody):
    """A new label with its author."""

    by: Annotated[str, Field(max_length=200)] = ""


class Improvements(BaseModel):
    """New best candidates in order; only the last ones if there are very many. `value` is the requested metric.

    Until `is_counted`, evaluations, cost and time are incomplete; `step` is always complete.
    """

    improvements: list[Improvement]
    total: int
    is_counted: bool


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
def show_run(
    run_store: StoreDep,
    run: RunId,
    read_status: StatusReaderDep,
    cache: CacheDep,
    islands: Annotated[bool, Query(description="Count the candidates of each island; slow in long runs.")] = True,
) -> Overview:
    """Returns the status, configuration, usage and result of a run."""
    status = read_status(run, RUN_SECONDS)
    totals = status.totals
    return Overview(
        **status.make_row().model_dump(),
        used=status.compute_usage(),
        config=text_limits.to_json_data(status.run.config),
        setup=text_limits.to_json_data(
            {**totals.setup, **{name: totals.started.get(name) for name in ("llm", "sandbox")}}
        ),
        settings=text_limits.to_json_data({**totals.settings, **episodes.get_live_settings(run_store, run)}),
        sessions=totals.sessions,
        islands=cache.get(("counts", run), totals.end, lambda: _summarize_islands(status)) if islands else [],
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
def list_improvements(
    run: RunId, read_status: StatusReaderDep, cache: CacheDep, metric: MetricName = SCORE
) -> Improvements:
    """Lists the new best candidates in order."""
    status = read_status(run, CURVE_SECONDS)
    queries = status.candidate_queries
    all_improvements = cache.get(("improvements", run), status.totals.end, status.totals.list_improvements)
    newest = all_improvements[-MAX_IMPROVEMENTS:]
    heads = queries.find([improvement.id for improvement in newest]) if metric != SCORE else {}
    values = load_metric(queries, list(heads.values()), metric) if heads else {}
    rows = []
    for improvement in newest:
        usage = status.totals.get_usage_at(improvement.step)._asdict()
        value = improvement.score if metric == SCORE else values.get(improvement.id)
        rows.append(Improvement(**improvement._asdict(), **usage, value=value))
    return Improvements(improvements=rows, total=len(all_improvements), is_counted=status.totals.is_counted)


@router.get("/runs/{run}/dots")
def list_dots(
    run: RunId, read_status: StatusReaderDep, cache: CacheDep, metric: MetricName = SCORE, limit: Limit = 500
) -> Dots:
    """Returns scored candidates for a chart; a long run is sampled evenly."""
    status = read_status(run, CURVE_SECONDS)
    key = ("dots", run, metric, limit, status.totals.is_counted)
    return cache.get(key, status.totals.end, lambda: _sample_dots(status, metric, limit))


def _sample_dots(status: RunStatusReader, metric: str, limit: int) -> Dots:
    queries = status.candidate_queries
    heads = [head for head in queries.list_sample(limit) if head.verdict is not None]  # without undecided ones
    values = (
        {head.id: head.score for head in heads if head.score is not None}
        if metric == SCORE
        else load_metric(queries, heads, metric)
    )
    drawn = [head for head in heads if head.id in values]
    usages = [status.totals.get_usage_at(head.step) for head in drawn]
    columns = {name: [getattr(usage, name) for usage in usages] for name in UsageAt._fields}
    return Dots(
        ids=[head.id for head in drawn],
        islands=[head.island for head in drawn],
        step=[head.step for head in drawn],
        values=[values[head.id] for head in drawn],
        is_sample=queries.count() > limit,
        is_counted=status.totals.is_counted,
        **columns,
    )


@router.post("/runs/{run}/label")
def set_label(run_store: StoreDep, run: RunId, body: LabelRequest) -> run_status.RunLabel:
    """Stores the name, tags and note of a run."""
    label = run_status.RunLabel(name=body.name.strip(), tags=list(dict.fromkeys(body.tags)), note=body.note)
    run_status.save_label(run_store, run, label, body.by.strip() or DEFAULT_AUTHOR)
    return run_status.load_label(run_store, run)


def _summarize_islands(status: RunStatusReader) -> list[IslandSummary]:
    queries, num_islands = status.candidate_queries, score_curves.get_num_islands(status.totals)
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

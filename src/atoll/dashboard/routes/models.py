"""The models that a run asks: calls, latency, failures, tokens, dollars, and how a bandit shares the steps."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from atoll.dashboard import texts
from atoll.dashboard.calls import NUM_RECENT, LLMTotals, LLMStats
from atoll.dashboard.given import StoreDep, StatusReaderDep, RunId

READ_SECONDS = 0.25
MAX_FAILURES = 50

router = APIRouter(prefix="/api/runs/{run}", tags=["models"])


class ModelRow(BaseModel):
    """A model.

    `share` is that of the newest 200 steps that were advised which model to ask, null where no step is; `improvements`
    are the new bests of steps that it was asked in, and `reward` their share of the steps. `latencies` are those of the
    newest calls, in seconds.
    """

    model: str
    calls: int
    failures: int
    latency_mean: float | None
    latency_p50: float | None
    latency_p95: float | None
    latency_p99: float | None
    tokens_in: int
    tokens_out: int
    cost_usd: float
    chosen: int
    share: float | None
    improvements: int
    reward: float | None
    latencies: list[float]


class Failure(BaseModel):
    reason: str
    count: int


class Models(BaseModel):
    """All models of a run. Until `is_counted` these are the numbers of a part of the journal, the share `counted`."""

    run: str
    route: str
    models: list[ModelRow]
    failures: list[Failure]
    is_counted: bool
    counted: float


@router.get("/models")
def list_models(request: Request, run_store: StoreDep, run: RunId, read_status: StatusReaderDep) -> Models:
    """Shows what was asked of models and what it took."""
    totals_by_run: dict[str, LLMTotals] = request.app.state.calls
    totals = totals_by_run.get(run) or totals_by_run.setdefault(run, LLMTotals(run_store, run))
    totals.advance(READ_SECONDS)
    status = read_status(run, 0.0)
    shares = totals.compute_shares()
    improving_models = [totals.get_advised(improvement.step) for improvement in status.candidate_queries.list_improvements()] if shares else []
    rows = [_make_row(name, stats, shares, improving_models.count(name)) for name, stats in totals.models.items()]
    settings = (status.totals.started.get("plan") or {}).get("llm")
    return Models(
        run=run,
        route=str(settings.get("route", "")) if isinstance(settings, dict) else "",
        models=sorted(rows, key=lambda row: -row.calls),
        failures=[Failure(reason=texts.replace_invalid(reason), count=count) for reason, count in totals.failures.most_common(MAX_FAILURES)],
        is_counted=totals.is_counted,
        counted=totals.seq / totals.end if totals.end else 1.0,
    )


def _make_row(name: str, stats: LLMStats, shares: dict[str, float], improvements: int) -> ModelRow:
    p50, p95, p99 = stats.compute_quantiles(0.5, 0.95, 0.99)
    return ModelRow(
        model=texts.replace_invalid(name[:300]),
        calls=stats.calls,
        failures=stats.failures,
        latency_mean=sum(stats.seconds) / len(stats.seconds) if stats.seconds else None,
        latency_p50=p50,
        latency_p95=p95,
        latency_p99=p99,
        tokens_in=stats.tokens_in,
        tokens_out=stats.tokens_out,
        cost_usd=stats.usd,
        chosen=stats.chosen,
        share=shares.get(name, 0.0) if shares else None,
        improvements=improvements,
        reward=improvements / stats.chosen if stats.chosen else None,
        latencies=list(stats.seconds[-NUM_RECENT:]),
    )

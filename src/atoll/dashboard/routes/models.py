"""The models that a run asks: calls, latency, failures, tokens, dollars, and how a bandit shares the steps."""

from fastapi import APIRouter, Request
from pydantic import BaseModel

from atoll.dashboard import texts
from atoll.dashboard.calls import RECENT, Calls, Model
from atoll.dashboard.given import Kept, Looking, RunId

LOOK_SECONDS = 0.25
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
def models(request: Request, kept: Kept, run: RunId, looking: Looking) -> Models:
    """Shows what was asked of models and what it took."""
    found: dict[str, Calls] = request.app.state.calls
    calls = found.get(run) or found.setdefault(run, Calls(kept, run))
    calls.advance(LOOK_SECONDS)
    look = looking(run, 0.0)
    shares = calls.shares()
    better = [calls.advised(each.step) for each in look.census.improvements()] if shares else []
    rows = [_row(name, each, shares, better.count(name)) for name, each in calls.models.items()]
    settings = (look.digest.started.get("plan") or {}).get("llm")
    return Models(
        run=run,
        route=str(settings.get("route", "")) if isinstance(settings, dict) else "",
        models=sorted(rows, key=lambda row: -row.calls),
        failures=[Failure(reason=texts.sound(each), count=n) for each, n in calls.failures.most_common(MAX_FAILURES)],
        is_counted=calls.is_counted,
        counted=calls.seq / calls.end if calls.end else 1.0,
    )


def _row(name: str, model: Model, shares: dict[str, float], improvements: int) -> ModelRow:
    p50, p95, p99 = model.quantiles(0.5, 0.95, 0.99)
    return ModelRow(
        model=texts.sound(name[:300]),
        calls=model.calls,
        failures=model.failures,
        latency_mean=sum(model.seconds) / len(model.seconds) if model.seconds else None,
        latency_p50=p50,
        latency_p95=p95,
        latency_p99=p99,
        tokens_in=model.tokens_in,
        tokens_out=model.tokens_out,
        cost_usd=model.usd,
        chosen=model.chosen,
        share=shares.get(name, 0.0) if shares else None,
        improvements=improvements,
        reward=improvements / model.chosen if model.chosen else None,
        latencies=list(model.seconds[-RECENT:]),
    )

"""LLMs of a run: calls, latency, failures, tokens, cost, and shares of the iterations."""

from array import array
from bisect import bisect_right
from collections import Counter
from typing import Any

import msgspec
from fastapi import APIRouter, Request
from pydantic import BaseModel

from atoll import evaluation, store
from atoll.dashboard import text_limits
from atoll.dashboard.dependencies import RunId, StatusReaderDep, StoreDep
from atoll.dashboard.run_totals import JournalTotals
from atoll.store.records import json_codec

MAX_NAMES = 10  # other names of an LLM
NUM_RECENT = 200  # latencies that are listed
ADVICE_KEY = "llm"  # key of the LLM in the advice of a router


class _ResponseRecord(msgspec.Struct):
    model: str | None = None
    usage: list[int | float] = []


class _IssuedRecord(msgspec.Struct):
    advice: dict[str, Any] = {}


class _AppliedRecord(msgspec.Struct):
    failure: str | None = None


_response_reader, _issued_reader, _applied_reader = (
    json_codec.JSONReader(_ResponseRecord),
    json_codec.JSONReader(_IssuedRecord),
    json_codec.JSONReader(_AppliedRecord),
)


class LLMStats:
    """Calls of one LLM.

    Attributes:
        chosen: Number of iterations that a router assigned to it.
        failures: Iterations of this LLM without a child.
        replied_as: Names in its responses, if they differ from the requested name.
    """

    def __init__(self) -> None:
        self.calls = self.tokens_in = self.tokens_out = self.chosen = self.failures = 0
        self.usd = 0.0
        self.seconds = array("d")
        self.replied_as = set[str]()

    def compute_quantiles(self, *shares: float) -> list[float | None]:
        """Returns latency quantiles in seconds."""
        ordered = sorted(self.seconds)
        return [ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else None for share in shares]


class LLMTotals(JournalTotals):
    """LLM calls of one run."""

    kinds = ("replied", "begun", "applied")

    def __init__(self, run_store: store.Store, run: str) -> None:
        super().__init__(run_store, run)
        self.models: dict[str, LLMStats] = {}
        self.failures = Counter[str]()
        self._steps, self._advised_names = array("q"), list[str]()
        self._open_iterations: dict[int, str] = {}  # LLMs that a router chose
        self._last_replied: dict[int, str] = {}  # LLMs of open iterations that responded

    def get_advised(self, step: int) -> str | None:
        """Returns the LLM that a router chose for an iteration; None: no choice."""
        index = bisect_right(self._steps, step) - 1
        return self._advised_names[index] if index >= 0 and self._steps[index] == step else None

    def compute_shares(self, num_newest: int = 200) -> dict[str, float]:
        """Returns the share of each LLM in the newest routed iterations."""
        recent = Counter(self._advised_names[-num_newest:])
        return {name: count / recent.total() for name, count in recent.items()}

    def _add_record(self, kind: str, step: int, island: int, text: str, at: float | None) -> None:
        if kind == "replied":
            response = _response_reader.read(text)
            replied_as = response.model or "unnamed"
            # A provider may answer under another name than the requested one. Both are the same LLM.
            name = self._open_iterations.get(step, replied_as)
            self._last_replied[step] = name
            stats = self._get_stats(name)
            if replied_as != name and len(stats.replied_as) < MAX_NAMES:
                stats.replied_as.add(replied_as)
            cost = evaluation.Cost(*response.usage[:4])  # type: ignore[arg-type] # written by the call cache
            stats.calls += 1
            stats.tokens_in, stats.tokens_out = stats.tokens_in + cost.tokens_in, stats.tokens_out + cost.tokens_out
            stats.usd += cost.usd
            stats.seconds.append(cost.seconds)
        elif kind == "begun":
            if '"advice"' in text and isinstance(advised := _issued_reader.read(text).advice.get(ADVICE_KEY), str):
                self._get_stats(advised).chosen += 1
                self._steps.append(step)
                self._advised_names.append(advised)
                self._open_iterations[step] = advised
        else:
            self._end_iteration(step, text)

    def _end_iteration(self, step: int, text: str) -> None:
        replied_name = self._last_replied.pop(step, None)
        name: str | None = self._open_iterations.pop(step, replied_name)
        if '"failure"' not in text:
            return
        failure = _applied_reader.read(text).failure
        if failure is not None:
            if len(self.failures) < 1000 or failure in self.failures:
                self.failures[failure[:300]] += 1
            if name is not None:
                self._get_stats(name).failures += 1

    def _get_stats(self, name: str) -> LLMStats:
        return self.models.setdefault(name, LLMStats())


READ_SECONDS = 0.25
MAX_FAILURES = 50

router = APIRouter(prefix="/api/runs/{run}", tags=["models"])


class ModelRow(BaseModel):
    """An LLM.

    `share` is its share of the newest 200 routed iterations, null without a router. `improvements` counts new best
    candidates of its iterations, and `reward` is their share. `latencies` are those of the newest calls, in seconds.
    """

    model: str
    replied_as: list[str]
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
    """All LLMs of a run. Until `is_counted`, the numbers cover the share `counted` of the journal."""

    run: str
    route: str
    models: list[ModelRow]
    failures: list[Failure]
    is_counted: bool
    counted: float


@router.get("/models")
def list_models(request: Request, run_store: StoreDep, run: RunId, read_status: StatusReaderDep) -> Models:
    """Returns the LLMs of a run with their calls and cost."""
    totals_by_run: dict[str, LLMTotals] = request.app.state.llm_totals
    totals = totals_by_run.get(run) or totals_by_run.setdefault(run, LLMTotals(run_store, run))
    totals.advance(READ_SECONDS)
    status = read_status(run, 0.0)
    shares = totals.compute_shares()
    improving_models = (
        [totals.get_advised(improvement.step) for improvement in status.totals.list_improvements()] if shares else []
    )
    rows = [_make_row(name, stats, shares, improving_models.count(name)) for name, stats in totals.models.items()]
    settings = (status.totals.started.get("plan") or {}).get("llm")
    return Models(
        run=run,
        route=str(settings.get("route", "")) if isinstance(settings, dict) else "",
        models=sorted(rows, key=lambda row: -row.calls),
        failures=[
            Failure(reason=text_limits.replace_invalid(reason), count=count)
            for reason, count in totals.failures.most_common(MAX_FAILURES)
        ],
        is_counted=totals.is_counted,
        counted=totals.seq / totals.end if totals.end else 1.0,
    )


def _make_row(name: str, stats: LLMStats, shares: dict[str, float], improvements: int) -> ModelRow:
    p50, p95, p99 = stats.compute_quantiles(0.5, 0.95, 0.99)
    return ModelRow(
        model=text_limits.replace_invalid(name[:300]),
        replied_as=sorted(text_limits.replace_invalid(other[:300]) for other in stats.replied_as),
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

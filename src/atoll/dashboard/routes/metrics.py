"""Metrics as JSON, or as Prometheus text if `Accept` asks for it."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from atoll.dashboard.dependencies import StatusReaderDep, StoreDep
from atoll.dashboard.event_stream import RunTails
from atoll.dashboard.run_status import RunRow

MAX_RUNS = 50
READ_SECONDS = 0.25
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
GAUGES: Mapping[str, str] = {
    "best_score": "Best score so far.",
    "initial_score": "Score of the initial candidate.",
    "evaluations": "Number of evaluations.",
    "candidates": "Number of stored candidates, including trials.",
    "steps": "Number of iterations.",
    "cost_usd": "Cost of LLM calls in US dollars.",
    "tokens": "Input and output tokens of LLM calls.",
    "used_share": "Used share of the budget.",
    "events": "Records in the journal.",
}

router = APIRouter(tags=["metrics"])


class Metrics(BaseModel):
    """Metrics of the store and its newest runs."""

    runs: list[RunRow]
    total_runs: int
    by_status: dict[str, int]
    clients: int
    clients_cut: int


@router.get(
    "/metrics",
    response_model=Metrics,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}, "description": "JSON, or Prometheus."}},
)
def show_metrics(request: Request, run_store: StoreDep, read_status: StatusReaderDep) -> Metrics | Response:
    """Returns metrics of the newest runs and of this server."""
    all_runs = run_store.list_runs()
    deadline = time.monotonic() + READ_SECONDS
    rows = [read_status(run.id, max(0.0, deadline - time.monotonic())).make_row() for run in all_runs[:MAX_RUNS]]
    tails: RunTails = request.app.state.tails
    result = Metrics(
        runs=rows,
        total_runs=len(all_runs),
        by_status=Counter(row.status for row in rows),
        clients=tails.num_clients,
        clients_cut=tails.num_cut,
    )
    if wants_text(request.headers.get("accept", "")):
        return PlainTextResponse("".join(format_prometheus(result)), media_type=PROMETHEUS)
    return result


def wants_text(accept: str) -> bool:
    """Checks whether an Accept header prefers plain text to JSON."""
    kinds = [part.partition(";")[0].strip().lower() for part in accept.split(",")]
    requested = [kind for kind in kinds if kind in ("text/plain", "application/openmetrics-text", "application/json")]
    return bool(requested) and requested[0] != "application/json"


def format_prometheus(data: Metrics) -> Iterator[str]:
    """Yields the metrics as Prometheus text."""
    yield "# HELP atoll_runs Runs in the store.\n# TYPE atoll_runs gauge\n"
    yield f"atoll_runs {data.total_runs}\n"
    yield "# HELP atoll_clients Clients of the live stream.\n# TYPE atoll_clients gauge\n"
    yield f"atoll_clients {data.clients}\n"
    yield "# HELP atoll_clients_cut_total Clients that were disconnected because they read nothing.\n"
    yield f"# TYPE atoll_clients_cut_total counter\natoll_clients_cut_total {data.clients_cut}\n"
    yield "# HELP atoll_run_status 1 for the current status of a run.\n# TYPE atoll_run_status gauge\n"
    yield from (f'atoll_run_status{{{_format_labels(row)},status="{row.status}"}} 1\n' for row in data.runs)
    for name, description in GAUGES.items():
        yield f"# HELP atoll_run_{name} {description}\n# TYPE atoll_run_{name} gauge\n"
        for row in data.runs:
            if (value := getattr(row, name)) is not None:
                yield f"atoll_run_{name}{{{_format_labels(row)}}} {value}\n"


def _format_labels(row: RunRow) -> str:
    return f'run="{_escape(row.id)}",system="{_escape(row.system)}"'


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

"""Numbers for other programs: as JSON, and for Prometheus as text where `Accept` asks for that."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping

from fastapi import APIRouter, Request
from fastapi.responses import PlainTextResponse, Response
from pydantic import BaseModel

from atoll.dashboard.given import Kept, Looking
from atoll.dashboard.standing import RunRow
from atoll.dashboard.stream import Tails

MAX_RUNS = 50
LOOK_SECONDS = 0.25
PROMETHEUS = "text/plain; version=0.0.4; charset=utf-8"
GAUGES: Mapping[str, str] = {
    "best_score": "The best score so far.",
    "initial_score": "The score of the start.",
    "evaluations": "Candidates and drafts judged.",
    "candidates": "Candidates and drafts stored.",
    "steps": "Steps that were applied.",
    "cost_usd": "US dollars that replies took.",
    "tokens": "Tokens that replies took, in and out.",
    "used_share": "Share of the budget that is used.",
    "events": "Records in the journal.",
}

router = APIRouter(tags=["metrics"])


class Metrics(BaseModel):
    """The store and its newest runs in numbers."""

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
def metrics(request: Request, kept: Kept, looking: Looking) -> Metrics | Response:
    """Returns numbers of the newest runs, and of this server."""
    found = kept.runs()
    deadline = time.monotonic() + LOOK_SECONDS
    rows = [looking(run.id, max(0.0, deadline - time.monotonic())).row() for run in found[:MAX_RUNS]]
    tails: Tails = request.app.state.tails
    told = Metrics(
        runs=rows,
        total_runs=len(found),
        by_status=Counter(row.status for row in rows),
        clients=tails.num_clients,
        clients_cut=tails.num_cut,
    )
    if wants_text(request.headers.get("accept", "")):
        return PlainTextResponse("".join(lines(told)), media_type=PROMETHEUS)
    return told


def wants_text(accept: str) -> bool:
    """Says whether plain text is asked for before JSON."""
    kinds = [each.partition(";")[0].strip().lower() for each in accept.split(",")]
    asked = [kind for kind in kinds if kind in ("text/plain", "application/openmetrics-text", "application/json")]
    return bool(asked) and asked[0] != "application/json"


def lines(told: Metrics) -> Iterator[str]:
    """Yields the numbers in the format of Prometheus."""
    yield "# HELP atoll_runs Runs in the store.\n# TYPE atoll_runs gauge\n"
    yield f"atoll_runs {told.total_runs}\n"
    yield "# HELP atoll_clients Clients of the live stream.\n# TYPE atoll_clients gauge\n"
    yield f"atoll_clients {told.clients}\n"
    yield "# HELP atoll_clients_cut_total Clients that took nothing and were cut.\n"
    yield f"# TYPE atoll_clients_cut_total counter\natoll_clients_cut_total {told.clients_cut}\n"
    yield "# HELP atoll_run_status 1 for the status that a run has.\n# TYPE atoll_run_status gauge\n"
    yield from (f'atoll_run_status{{{_labels(row)},status="{row.status}"}} 1\n' for row in told.runs)
    for name, about in GAUGES.items():
        yield f"# HELP atoll_run_{name} {about}\n# TYPE atoll_run_{name} gauge\n"
        for row in told.runs:
            if (value := getattr(row, name)) is not None:
                yield f"atoll_run_{name}{{{_labels(row)}}} {value}\n"


def _labels(row: RunRow) -> str:
    return f'run="{_quoted(row.id)}",system="{_quoted(row.system)}"'


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

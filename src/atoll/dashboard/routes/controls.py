"""What can be said to a run: pause, resume, stop, more budget, other settings. The run obeys in its own process."""

import json
import math
from dataclasses import fields
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from atoll import control, errors, store
from atoll.dashboard import text_limits
from atoll.dashboard.dependencies import Limit, RunId, StoreDep
from atoll.runs import control_requests

LIMITS = tuple(field.name for field in fields(control.Budget))
COUNTS = ("iterations", "evaluations", "calls", "tokens")
DEFAULT_AUTHOR = "dashboard"  # who asks, where nobody says a name

router = APIRouter(prefix="/api/runs/{run}", tags=["control"])


class ControlRequest(text_limits.RequestBody):
    """What is asked of a run.

    `limits` belong to `budget`, and raise; `values` belong to `set`, such as `danger_threshold`, `exploration_bonus`,
    `log_detail`, `notifications` and `tick_delay` of a run of lives.
    """

    action: Literal["pause", "resume", "stop", "budget", "set"]
    limits: Annotated[dict[str, float], Field(max_length=10, default_factory=dict)]
    values: Annotated[dict[str, Any], Field(max_length=50, default_factory=dict)]
    by: Annotated[str, Field(max_length=200, description="Who asks.")] = DEFAULT_AUTHOR
    reason: Annotated[str, Field(max_length=2000, description="Why.")] = ""


class ControlResponse(BaseModel):
    """What was left for the run: it obeys with its next step, and says so in its journal as `controlled`."""

    run: str
    message: str
    numbers: list[int]
    is_alive: bool


class LoggedRequest(BaseModel):
    """An order in the log of the store."""

    n: int
    by: str
    at: str
    reason: str
    order: dict[str, Any]


class ControlLog(BaseModel):
    run: str
    orders: list[LoggedRequest]


@router.post("/control")
def control_run(run_store: StoreDep, run: RunId, body: ControlRequest) -> ControlResponse:
    """Asks something of a run; who asked what is written into the store's log of changes."""
    receipt = control_requests.send_commands(
        run_store, run, [_to_command(body)], author=body.by.strip() or DEFAULT_AUTHOR, reason=body.reason.strip()
    )
    return ControlResponse(
        run=run, message=receipt.describe(), numbers=list(receipt.numbers), is_alive=receipt.is_alive
    )


@router.get("/control")
def list_requests(run_store: StoreDep, run: RunId, limit: Limit = 100) -> ControlLog:
    """Lists what was asked of a run, newest first: who, when, what and why."""
    entries = run_store.change_log().list_history(f"{control_requests.KEY_PREFIX}{run}", limit)
    return ControlLog(run=run, orders=[_to_logged_request(entry) for entry in reversed(entries)])


def _to_command(body: ControlRequest) -> control_requests.RequestedCommand:
    if body.action != "budget" and body.limits:
        raise errors.SetupError("Limits belong to the action 'budget'.")
    if body.action != "set" and body.values:
        raise errors.SetupError("Values belong to the action 'set'.")
    match body.action:
        case "pause" | "resume":
            return body.action, {}
        case "stop":
            return "stop", {"reason": "stopped by the dashboard"}
        case "budget":
            return "raise", _check_limits(body.limits)
        case "set":
            if not body.values:
                raise errors.SetupError("'set' needs what to change, in `values`.")
            return "set", body.values


def _check_limits(limits: dict[str, float]) -> dict[str, float]:
    if not limits:
        raise errors.SetupError("'budget' needs the new limits, in `limits`.")
    for name, limit in limits.items():
        if name not in LIMITS:
            raise errors.SetupError(f"There is no limit {name!r:.60}: give {', '.join(LIMITS)}.")
        if not (math.isfinite(limit) and limit > 0 and (name not in COUNTS or limit < 2**53)):
            raise errors.SetupError(f"{name}={limit} is no limit: give a number above 0.")
    return {name: int(limit) if name in COUNTS else limit for name, limit in limits.items()}


def _to_logged_request(entry: store.ChangeEntry) -> LoggedRequest:
    request_data: Any = json.loads(json.loads(entry.value or '"{}"'))
    return LoggedRequest(
        n=entry.n or 0, by=entry.author, at=entry.at, reason=entry.reason, order=text_limits.to_json_data(request_data)
    )

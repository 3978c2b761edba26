"""Commands to a run: pause, resume, stop, raise the budget, change settings. The run's own process obeys them."""

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
DEFAULT_AUTHOR = "dashboard"  # author of commands without a name

router = APIRouter(prefix="/api/runs/{run}", tags=["control"])


class ControlRequest(text_limits.RequestBody):
    """A command to a run.

    `limits` belong to `budget` and only raise limits. `values` belong to `set`; survival runs have `danger_threshold`,
    `exploration_bonus`, `log_detail`, `notifications` and `tick_delay`.
    """

    action: Literal["pause", "resume", "stop", "budget", "set"]
    limits: Annotated[dict[str, float], Field(max_length=10, default_factory=dict)]
    values: Annotated[dict[str, Any], Field(max_length=50, default_factory=dict)]
    by: Annotated[str, Field(max_length=200, description="Name of the author.")] = DEFAULT_AUTHOR
    reason: Annotated[str, Field(max_length=2000, description="Why.")] = ""


class ControlResponse(BaseModel):
    """Receipt of a command. The run obeys at its next iteration and writes a `controlled` record."""

    run: str
    message: str
    numbers: list[int]
    is_alive: bool


class LoggedRequest(BaseModel):
    """A command in the change log of the store."""

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
    """Sends a command to a run and writes it to the change log."""
    receipt = control_requests.send_commands(
        run_store, run, [_to_command(body)], author=body.by.strip() or DEFAULT_AUTHOR, reason=body.reason.strip()
    )
    return ControlResponse(
        run=run, message=receipt.describe(), numbers=list(receipt.numbers), is_alive=receipt.is_alive
    )


@router.get("/control")
def list_requests(run_store: StoreDep, run: RunId, limit: Limit = 100) -> ControlLog:
    """Lists the commands to a run with author, time and reason, newest first."""
    entries = run_store.change_log().list_history(f"{control_requests.KEY_PREFIX}{run}", limit)
    return ControlLog(run=run, orders=[_to_logged_request(entry) for entry in reversed(entries)])


def _to_command(body: ControlRequest) -> control_requests.RequestedCommand:
    if body.action != "budget" and body.limits:
        raise errors.SetupError("Only the action 'budget' takes `limits`.")
    if body.action != "set" and body.values:
        raise errors.SetupError("Only the action 'set' takes `values`.")
    match body.action:
        case "pause" | "resume":
            return body.action, {}
        case "stop":
            return "stop", {"reason": "stopped by the dashboard"}
        case "budget":
            return "raise", _check_limits(body.limits)
        case "set":
            if not body.values:
                raise errors.SetupError("The action 'set' needs `values`.")
            return "set", body.values


def _check_limits(limits: dict[str, float]) -> dict[str, float]:
    if not limits:
        raise errors.SetupError("The action 'budget' needs `limits`.")
    for name, limit in limits.items():
        if name not in LIMITS:
            raise errors.SetupError(f"Limit {name!r:.60} is unknown. Use one of {', '.join(LIMITS)}.")
        if not (math.isfinite(limit) and limit > 0 and (name not in COUNTS or limit < 2**53)):
            raise errors.SetupError(f"{name}={limit} is not a valid limit. Use a number above 0.")
    return {name: int(limit) if name in COUNTS else limit for name, limit in limits.items()}


def _to_logged_request(entry: store.ChangeEntry) -> LoggedRequest:
    request_data: Any = json.loads(json.loads(entry.value or '"{}"'))
    return LoggedRequest(
        n=entry.n or 0, by=entry.author, at=entry.at, reason=entry.reason, order=text_limits.to_json_data(request_data)
    )

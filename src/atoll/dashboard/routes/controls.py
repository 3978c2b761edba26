"""What can be said to a run: pause, resume, stop, more budget, other settings. The run obeys in its own process."""

import json
import math
from dataclasses import fields
from typing import Annotated, Any, Literal

from fastapi import APIRouter
from pydantic import BaseModel, Field

from atoll import control, errors, store
from atoll.dashboard import plain
from atoll.dashboard.given import Kept, Limit, RunId
from atoll.runs import orders

LIMITS = tuple(field.name for field in fields(control.Budget))
COUNTS = ("iterations", "evaluations", "calls", "tokens")
NOBODY = "dashboard"  # who asks, where nobody says a name

router = APIRouter(prefix="/api/runs/{run}", tags=["control"])


class Order(plain.Body):
    """What is asked of a run.

    `limits` belong to `budget`, and raise; `values` belong to `set`, such as `danger_threshold`, `exploration_bonus`,
    `log_detail`, `notifications` and `tick_delay` of a run of lives.
    """

    action: Literal["pause", "resume", "stop", "budget", "set"]
    limits: Annotated[dict[str, float], Field(max_length=10, default_factory=dict)]
    values: Annotated[dict[str, Any], Field(max_length=50, default_factory=dict)]
    by: Annotated[str, Field(max_length=200, description="Who asks.")] = NOBODY
    reason: Annotated[str, Field(max_length=2000, description="Why.")] = ""


class Answer(BaseModel):
    """What was left for the run: it obeys with its next step, and says so in its journal as `controlled`."""

    run: str
    message: str
    numbers: list[int]
    is_alive: bool


class Asked(BaseModel):
    """An order in the log of the store."""

    n: int
    by: str
    at: str
    reason: str
    order: dict[str, Any]


class Log(BaseModel):
    run: str
    orders: list[Asked]


@router.post("/control")
def steer(kept: Kept, run: RunId, order: Order) -> Answer:
    """Asks something of a run; who asked what is written into the store's log of changes."""
    told = orders.tell(kept, run, [_post(order)], by=order.by.strip() or NOBODY, reason=order.reason.strip())
    return Answer(run=run, message=told.sentence(), numbers=list(told.numbers), is_alive=told.is_alive)


@router.get("/control")
def asked(kept: Kept, run: RunId, limit: Limit = 100) -> Log:
    """Lists what was asked of a run, newest first: who, when, what and why."""
    found = kept.book().history(f"{orders.KEY}{run}", limit)
    return Log(run=run, orders=[_asked(each) for each in reversed(found)])


def _post(order: Order) -> orders.Post:
    if order.action != "budget" and order.limits:
        raise errors.SetupError("Limits belong to the action 'budget'.")
    if order.action != "set" and order.values:
        raise errors.SetupError("Values belong to the action 'set'.")
    match order.action:
        case "pause" | "resume":
            return order.action, {}
        case "stop":
            return "stop", {"reason": "stopped by the dashboard"}
        case "budget":
            return "raise", _limits(order.limits)
        case "set":
            if not order.values:
                raise errors.SetupError("'set' needs what to change, in `values`.")
            return "set", order.values


def _limits(limits: dict[str, float]) -> dict[str, float]:
    if not limits:
        raise errors.SetupError("'budget' needs the new limits, in `limits`.")
    for name, limit in limits.items():
        if name not in LIMITS:
            raise errors.SetupError(f"There is no limit {name!r:.60}: give {', '.join(LIMITS)}.")
        if not (math.isfinite(limit) and limit > 0 and (name not in COUNTS or limit < 2**53)):
            raise errors.SetupError(f"{name}={limit} is no limit: give a number above 0.")
    return {name: int(limit) if name in COUNTS else limit for name, limit in limits.items()}


def _asked(entry: store.Entry) -> Asked:
    said: Any = json.loads(json.loads(entry.value or '"{}"'))
    return Asked(n=entry.n or 0, by=entry.author, at=entry.at, reason=entry.reason, order=plain.data(said))

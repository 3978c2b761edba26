"""API for agents: values with their assignment, decisions, feedback, proposals and changes.

All routes need the token of a principal once the store has principals. Proposals pass the same gate as everywhere.
"""

import asyncio
import time
import uuid
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, HTTPException, Query
from pydantic import AwareDatetime, BaseModel, Field
from starlette.concurrency import run_in_threadpool

from atoll import errors, governed
from atoll.dashboard import text_limits
from atoll.dashboard.dependencies import ClockDep, StoreDep
from atoll.dashboard.routes import governance
from atoll.governed import errors as governed_errors
from atoll.governed import reserved_keys, rollout
from atoll.governed.approval.proposal import Type
from atoll.governed.evidence import feedback_stores, log_stores
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.evidence.logs import LogEntry
from atoll.store import access

MAX_KEYS = 50
MAX_BATCH = 500
MAX_META = 100
MAX_CHANGES = 500
MAX_WAIT_SECONDS = 25.0
POLL_SECONDS = 0.25
MAX_WAITING = 100  # requests that wait for changes

PROPOSALS, ROLLOUTS = "proposals/", "rollout/"

Name = Annotated[str, Field(min_length=1, max_length=512)]
Text = Annotated[str, Field(max_length=20_000)]
Arm = Literal["baseline", "candidate"]


def require_principal(run_store: StoreDep) -> str:
    """Returns the name of the principal of a request; empty in single-user mode.

    Raises:
        HTTPException: The store has principals, and the request has the token of none.
    """
    control = access.load_control(run_store.change_log())
    if control.is_single_user:
        return ""
    try:
        return control.authenticate(access.get_token()).name
    except governed_errors.AccessDenied as error:
        message = "Send the token of a principal as 'Authorization: Bearer NAME:SECRET'."
        raise HTTPException(401, message) from error


PrincipalDep = Annotated[str, Depends(require_principal)]
router = APIRouter(
    prefix="/api/agent",
    tags=["agent"],
    dependencies=[Depends(require_principal)],
    responses={401: {"description": "The token is missing or wrong."}},
)


class ServedParameter(BaseModel):
    """Value of a parameter for one entity.

    Attributes:
        version: Version of the parameter. A candidate of a canary has no version yet; it is that of the baseline.
        arm: `candidate` if the entity gets the new value of a rollout.
    """

    key: str
    value: Any
    version: int
    arm: Arm


class ServedParameters(BaseModel):
    """Values for one entity, and the number of the last change of the store."""

    entity: str
    values: list[ServedParameter]
    seq: int


class Decision(text_limits.RequestBody):
    """Decision of an agent.

    Attributes:
        entity: Subject of the decision, for example a user. Rollouts assign by it.
        decision_id: Id that feedback refers to; made by the server if missing.
        payload: Transcript, or other data of the decision.
        arms: Arms of the parameters in use, as `GET /api/agent/values` returned them.
        values: Values of the parameters in use, for reflection.
    """

    entity: Name
    decision_id: Annotated[str, Field(max_length=200)] = ""
    payload: Any = None
    action: Annotated[str, Field(max_length=512)] | None = None
    propensity: Annotated[float, Field(gt=0, le=1)] | None = None
    policy_version: Annotated[str, Field(max_length=200)] | None = None
    arms: dict[Name, Arm] = Field(default_factory=dict, max_length=MAX_KEYS)
    values: dict[Name, Any] = Field(default_factory=dict, max_length=MAX_KEYS)
    meta: dict[str, Any] = Field(default_factory=dict, max_length=MAX_META)


class Decisions(text_limits.RequestBody):
    """Decisions, written all or none."""

    decisions: Annotated[list[Decision], Field(min_length=1, max_length=MAX_BATCH)]


class DecisionIds(BaseModel):
    """Ids of the decisions, in their order."""

    decision_ids: list[str]


class Measurement(text_limits.RequestBody):
    """Measurement of a decision or of an entity.

    Attributes:
        decision_id: Decision that was measured. Late feedback then counts for its arm and time.
        observed_at: Time of the observation; the server records its own time too.
    """

    entity: Name
    metric: Name
    value: Annotated[float, Field(allow_inf_nan=False)]
    confidence: Annotated[float, Field(ge=0, le=1)] = 1.0
    decision_id: Annotated[str, Field(min_length=1, max_length=200)] | None = None
    observed_at: AwareDatetime | None = None
    meta: dict[str, Any] = Field(default_factory=dict, max_length=MAX_META)


class Measurements(text_limits.RequestBody):
    """Measurements, written all or none."""

    measurements: Annotated[list[Measurement], Field(min_length=1, max_length=MAX_BATCH)]


class Accepted(BaseModel):
    """Number of rows written."""

    accepted: int


class NewProposal(text_limits.RequestBody):
    """Proposal of a change.

    Attributes:
        content: For `optimize` one change `{"key", "value"}` or a bundle `{"changes": [{"key", "value"}, ...]}`.
        evidence: Observations that support it, for the approvers.
        by: Author in single-user mode. With principals it is that of the token.
    """

    type: Type = "optimize"
    title: Annotated[str, Field(min_length=1, max_length=200)]
    content: dict[str, Any]
    description: Text = ""
    rationale: Text = ""
    evidence: list[dict[str, Any]] = Field(default_factory=list, max_length=100)
    by: Annotated[str, Field(min_length=1, max_length=200)] = "agent"


class ChangeNotice(BaseModel):
    """Change that concerns an agent.

    Attributes:
        kind: Kind of the change of a parameter, or `rollout` or `proposal`.
        key: The parameter; for a proposal, its id.
        status: Stage of the rollout, or status of the proposal.
    """

    seq: int
    kind: str
    key: str
    version: int | None
    status: str | None = None


class Changes(BaseModel):
    """Changes after a position, and the position to continue from."""

    changes: list[ChangeNotice]
    seq: int


@router.get("/values")
def get_values(
    run_store: StoreDep,
    entity: Annotated[str, Query(min_length=1, max_length=512, description="Subject, for example a user.")],
    key: Annotated[list[str], Query(min_length=1, max_length=MAX_KEYS, description="Parameter; may be repeated.")],
) -> ServedParameters:
    """Returns the values that an entity gets. During a rollout they depend on the entity."""
    params = governance.open_parameters(run_store)
    seq = params.ledger.change_log.get_end().seq
    return ServedParameters(entity=entity, values=[_serve(params, name, entity) for name in key], seq=seq)


def _serve(params: governed.Parameters, key: str, entity: str) -> ServedParameter:
    reserved_keys.check_not_reserved(key)
    version = params.get(key).version
    value, arm = rollout.Rollout(params, key).value_for(entity)
    return ServedParameter(key=key, value=value, version=version, arm="candidate" if arm == "candidate" else "baseline")


@router.post("/decisions")
def report_decisions(run_store: StoreDep, clock: ClockDep, principal: PrincipalDep, body: Decisions) -> DecisionIds:
    """Logs decisions, so that feedback can refer to them and reflectors can read them."""
    entries = [_make_entry(item, clock(), principal) for item in body.decisions]
    log_stores.SQLLog(run_store).append(*entries)
    return DecisionIds(decision_ids=[entry.decision_id for entry in entries])


def _make_entry(item: Decision, timestamp: datetime, principal: str) -> LogEntry:
    reporter = {"reported_by": principal} if principal else {}
    return LogEntry(
        timestamp=timestamp,
        decision_id=item.decision_id or f"d-{uuid.uuid4().hex[:16]}",
        entity=item.entity,
        payload=item.payload,
        meta={**item.meta, "arms": item.arms, "values": item.values, **reporter},
        action=item.action,
        propensity=item.propensity,
        policy_version=item.policy_version,
    )


@router.post("/feedback")
def report_feedback(run_store: StoreDep, clock: ClockDep, principal: PrincipalDep, body: Measurements) -> Accepted:
    """Records measurements. The server sets the time; the reporter cannot choose it."""
    log = log_stores.SQLLog(run_store)
    records = [_make_feedback(log, item, clock(), principal) for item in body.measurements]
    feedback_stores.SQLFeedback(run_store).add(*records)
    return Accepted(accepted=len(records))


def _make_feedback(log: log_stores.SQLLog, item: Measurement, timestamp: datetime, principal: str) -> Feedback:
    names = ("arm", "arms", "decided_at", "reported_by")  # set by the server
    meta = {name: value for name, value in item.meta.items() if name not in names}
    if item.decision_id is not None:
        decision = log.find(item.entity, item.decision_id)
        if decision is None:
            raise errors.NotFound(f"Decision {item.decision_id} of {item.entity} not found. Report it first.")
        meta |= {"arms": (decision.meta or {}).get("arms", {}), "decided_at": decision.timestamp.isoformat()}
    if principal:
        meta["reported_by"] = principal
    return Feedback(
        timestamp,
        item.entity,
        item.metric,
        item.value,
        item.confidence,
        meta or None,
        item.decision_id,
        item.observed_at,
    )


@router.post("/proposals")
def submit_proposal(run_store: StoreDep, clock: ClockDep, body: NewProposal) -> dict[str, Any]:
    """Submits a proposal for approval, and notifies the approvers. Returns its id, status and content hash."""
    evolver = governance.make_evolver(run_store, clock)
    proposal = evolver.propose(
        body.type,
        body.title,
        body.content,
        body.by,
        description=body.description,
        rationale=body.rationale,
        evidence=body.evidence,
    )
    return governance.proposal_to_json(evolver, proposal)


_num_waiting = 0


@router.get("/changes")
async def wait_for_changes(
    run_store: StoreDep,
    after: Annotated[int, Query(ge=0, le=2**53, description="`seq` of the previous response.")],
    prefix: Annotated[str, Query(max_length=512, description="Beginning of the parameters' keys.")] = "",
    wait: Annotated[float, Query(ge=0, le=MAX_WAIT_SECONDS, description="Seconds to wait for a change.")] = 0.0,
) -> Changes:
    """Returns changes of parameters, rollouts and proposals after a position. Waits for the next one (long poll)."""
    global _num_waiting
    if _num_waiting >= MAX_WAITING:
        raise errors.Conflict(f"{MAX_WAITING} requests already wait for changes. Try again later.")
    params = governance.open_parameters(run_store)
    deadline = time.monotonic() + wait
    _num_waiting += 1
    try:
        while True:
            notices, seq = await run_in_threadpool(_read_changes, params, prefix, after)
            if notices or time.monotonic() >= deadline:
                return Changes(changes=notices, seq=seq)
            after = seq
            await asyncio.sleep(POLL_SECONDS)
    finally:
        _num_waiting -= 1


def _read_changes(params: governed.Parameters, prefix: str, after: int) -> tuple[list[ChangeNotice], int]:
    end = params.ledger.change_log.get_end().seq
    notices: list[ChangeNotice] = []
    if after >= end:
        return notices, max(after, end)
    for change in params.changes(after=after, end=end):
        if (notice := _make_notice(change, prefix)) is not None:
            notices.append(notice)
        if len(notices) >= MAX_CHANGES:
            return notices, change.seq
    return notices, end


def _make_notice(change: governed.Change, prefix: str) -> ChangeNotice | None:
    """Returns the notice of a change; None if it does not concern agents, or has another prefix."""
    data = change.value if isinstance(change.value, dict) else {}
    if change.key.startswith(PROPOSALS):
        proposal_id = change.key.removeprefix(PROPOSALS)
        return ChangeNotice(seq=change.seq, kind="proposal", key=proposal_id, version=None, status=data.get("status"))
    if change.key.startswith(ROLLOUTS):
        key = change.key.removeprefix(ROLLOUTS)
        notice = ChangeNotice(seq=change.seq, kind="rollout", key=key, version=None, status=data.get("stage"))
        return notice if key.startswith(prefix) else None
    if change.key.startswith(reserved_keys.RESERVED_PREFIXES) or not change.key.startswith(prefix):
        return None
    return ChangeNotice(seq=change.seq, kind=change.kind, key=change.key, version=change.version)

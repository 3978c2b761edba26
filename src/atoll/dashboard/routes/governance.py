"""Governance: proposals, parameters, shadow runs, rollouts and the audit log."""

import json
import os
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from atoll import errors, governed, store
from atoll.config import parameter_stores
from atoll.dashboard import text_limits
from atoll.dashboard.dependencies import CacheDep, ClockDep, Limit, StoreDep
from atoll.governed import approval, notifications, reserved_keys, rollout
from atoll.governed import errors as governed_errors
from atoll.governed.approval.proposal import Proposal, Status
from atoll.governed.evidence import feedback_stores
from atoll.governed.rollout import status as rollout_status
from atoll.store import access
from atoll.store.versions import errors as versions_errors

router = APIRouter(prefix="/api/governance", tags=["governance"])
signed_router = APIRouter(prefix="/api/proposals", tags=["governance"])

WEBHOOK_KEY = "ATOLL_WEBHOOK_KEY"  # environment variable with the key of signed decisions

MAX_VALUE = 20_000  # characters
MAX_PROPOSAL = 1_000_000  # longest proposal: an approver sees it completely
KeyQuery = Annotated[str, Query(min_length=1, max_length=512, description="Key of the parameter.")]
Key = Annotated[str, Field(min_length=1, max_length=512)]


class ProposalDecision(text_limits.AuthorAndReason):
    """A decision on a proposal with the content hash that was read."""

    approve: bool
    content_hash: Annotated[str, Field(min_length=1, max_length=100)]


class ParameterChange(text_limits.AuthorAndReason):
    """Locks or unlocks a parameter, or aborts its rollout."""

    key: Key


class ParameterRollback(ParameterChange):
    """Restores an old value as a new version."""

    version: Annotated[int, Field(ge=1, le=2**53)]


def open_parameters(run_store: store.Store) -> governed.Parameters:
    return governed.StoredParameters(run_store, check=parameter_stores.load_rules())


def make_evolver(run_store: store.Store, clock: Callable[[], datetime]) -> governed.Evolver:
    """Returns an evolver that leaves decisions to approvers and notifies them."""
    params = open_parameters(run_store)
    return governed.Evolver(
        params, governed.DEFER, observer=notifications.make_observer(params, in_background=True), clock=clock
    )


@router.get("/proposals")
def list_proposals(
    run_store: StoreDep, clock: ClockDep, status: Status | None = None, limit: Limit = 100
) -> dict[str, Any]:
    """Lists proposals, pending ones first, each group newest first."""
    evolver = make_evolver(run_store, clock)
    matching = [proposal for proposal in evolver.history() if status in (None, proposal.status)][::-1]
    ordered = sorted(matching, key=lambda proposal: proposal.status != "pending")
    rows = [proposal_to_json(evolver, proposal) for proposal in ordered[:limit]]
    return {
        "proposals": rows,
        "total": len(matching),
        "waiting": sum(proposal.status == "pending" for proposal in matching),
        "single_user": open_parameters(run_store).get_access().is_single_user,
    }


@router.get("/proposals/{proposal}")
def proposal(run_store: StoreDep, clock: ClockDep, proposal: str) -> dict[str, Any]:
    """Returns one proposal with its content, rationale, reviews and quorum."""
    evolver = make_evolver(run_store, clock)
    current = evolver.proposals.get(proposal)
    needed = evolver.proposals.get_quorum(current)
    response = text_limits.to_json_data(current.to_json(), MAX_PROPOSAL)
    response |= {
        "value_before": text_limits.to_json_data(evolver.get_current_value(current), MAX_VALUE),
        "needed": needed,
        "may_approve": list(approval.list_possible_approvers(open_parameters(run_store), current)),
        "changes": [_change_to_json(change) for change in approval.describe_changes(evolver.store, current)],
    }
    return {**response, "approvals": len(current.approvals), "approvers": list(evolver.proposals.policy.approvers)}


def _change_to_json(change: approval.ChangeDescription) -> dict[str, Any]:
    """Returns the change of one parameter, with its differences by words."""
    segments = [[segment.kind, text_limits.limit_text(segment.text, MAX_PROPOSAL)] for segment in change.segments]
    fields = {name: getattr(change, name) for name in ("key", "base_version", "current_version", "is_stale")}
    return {**fields, "segments": segments}


@router.post("/proposals/{proposal}/decision")
def decide(run_store: StoreDep, clock: ClockDep, proposal: str, body: ProposalDecision) -> dict[str, Any]:
    """Approves or rejects a proposal; applies it when the quorum is reached.

    The request fails without a reason or a name, for the author's own proposal, if the content has changed, or if the
    proposal is already decided or has expired.
    """
    evolver = make_evolver(run_store, clock)
    decided = evolver.proposals.decide(
        proposal, body.by, approve=body.approve, reason=body.reason, content_hash=body.content_hash
    )
    return _apply_if_approved(evolver, decided)


@signed_router.post("/decisions")
async def accept_signed_decision(
    request: Request,
    run_store: StoreDep,
    clock: ClockDep,
    signature: Annotated[str, Header(alias="X-Atoll-Signature", max_length=200, description="`sha256=DIGEST`")],
) -> dict[str, Any]:
    """Accepts a signed decision; applies the proposal when the quorum is reached.

    The body is JSON with `proposal`, `content_hash`, `by`, `approve`, `reason`, `nonce` and `at`. The signature is the
    HMAC-SHA256 of the body with the key in the environment variable ATOLL_WEBHOOK_KEY of the server. In a store with
    principals it is that with the sender's own token, which the request also carries as a bearer.
    """
    return await run_in_threadpool(_accept_signed, run_store, clock, await request.body(), signature)


def _accept_signed(
    run_store: store.Store, clock: Callable[[], datetime], body: bytes, signature: str
) -> dict[str, Any]:
    is_single_user = open_parameters(run_store).get_access().is_single_user
    key = os.environ.get(WEBHOOK_KEY, "") if is_single_user else access.get_token()
    if not key and not is_single_user:
        raise governed_errors.AccessDenied("A signed decision needs the token of a principal. Send it as a bearer.")
    if not key:
        raise errors.SetupError(f"Signed decisions are disabled. Start the dashboard with {WEBHOOK_KEY}.")
    evolver = make_evolver(run_store, clock)
    decisions = approval.SignedDecisions(evolver.proposals, evolver.store, key.encode())
    return _apply_if_approved(evolver, decisions.accept(body, signature))


def _apply_if_approved(evolver: governed.Evolver, decided: Proposal) -> dict[str, Any]:
    return proposal_to_json(evolver, evolver.apply(decided.id) if decided.status == "approved" else decided)


def proposal_to_json(evolver: governed.Evolver, proposal: Proposal) -> dict[str, Any]:
    needed = evolver.proposals.get_quorum(proposal)
    fields = {name: getattr(proposal, name) for name in ("id", "type", "title", "author", "risk", "status", "outcome")}
    times = {name: getattr(proposal, name).isoformat() for name in ("created_at", "expires_at")}
    counts = {"approvals": len(proposal.approvals), "needed": needed, "content_hash": proposal.content_hash}
    row: dict[str, Any] = text_limits.to_json_data({**fields, **times, **counts}, 2000)
    return row


@router.get("/parameters")
def list_parameters(
    run_store: StoreDep,
    prefix: Annotated[str, Query(max_length=512)] = "",
    after: Annotated[str, Query(max_length=512)] = "",
    everything: bool = False,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Lists parameters by key with version, value, lock and aliases. `everything` includes reserved keys."""
    params = open_parameters(run_store)
    keys = [
        key
        for key in params.list(prefix)
        if key > after and (everything or not key.startswith(reserved_keys.RESERVED_PREFIXES))
    ]
    rows = [_parameter_to_json(params, key) for key in keys[:limit]]
    return {"parameters": rows, "total": len(keys), "next": keys[limit - 1] if len(keys) > limit else None}


def _parameter_to_json(params: governed.Parameters, key: str) -> dict[str, Any]:
    value, version = params.get(key)
    lock = params.get_lock(key)
    lock_data = None if lock is None else {"by": lock.author, "reason": lock.reason, "at": lock.timestamp.isoformat()}
    aliases = dict(params.aliases(key))
    return {
        "key": key,
        "version": version,
        "value": text_limits.limit_text(_format_value(value), 2000),
        "lock": lock_data,
    } | {"aliases": aliases}


@router.get("/parameters/history")
def list_parameter_history(run_store: StoreDep, key: KeyQuery, limit: Limit = 50) -> dict[str, Any]:
    """Lists the versions of a parameter, newest first, and its lock."""
    params = open_parameters(run_store)
    changes = [
        {
            "version": change.version,
            "value": text_limits.limit_text(_format_value(change.value), MAX_VALUE),
            "kind": change.kind,
            "target": change.target,
            "reason": text_limits.limit_text(change.reason, 2000),
            "author": text_limits.limit_text(change.author, 200),
            "at": change.timestamp.isoformat(),
        }
        for change in reversed(params.history(key, limit))
    ]
    return {**_parameter_to_json(params, key), "changes": changes}


@router.get("/parameters/difference")
def compare_versions(
    run_store: StoreDep,
    key: KeyQuery,
    new: Annotated[int, Query(ge=1, le=2**53)],
    old: Annotated[int, Query(ge=1, le=2**53)],
) -> dict[str, Any]:
    """Returns the diff of two versions of a parameter."""
    params = open_parameters(run_store)
    before, after = (
        _format_value(params.get(f"{key}@{version}").value, indent=2).splitlines() for version in (old, new)
    )
    lines, _ = text_limits.make_unified_diff(before, after, f"{key}@{old}", f"{key}@{new}")
    return {"key": key, "old": old, "new": new, "patch": text_limits.limit_text("\n".join(lines))}


@router.post("/parameters/lock")
def lock(run_store: StoreDep, body: ParameterChange) -> dict[str, Any]:
    """Locks a parameter: only rollbacks are possible until it is unlocked."""
    reserved_keys.check_not_reserved(body.key)
    params = open_parameters(run_store)
    params.lock(body.key, body.reason, author=body.by)
    return _parameter_to_json(params, body.key)


@router.post("/parameters/unlock")
def unlock(run_store: StoreDep, body: ParameterChange) -> dict[str, Any]:
    """Unlocks a parameter."""
    params = open_parameters(run_store)
    params.unlock(body.key, body.reason, author=body.by)
    return _parameter_to_json(params, body.key)


@router.post("/parameters/rollback")
def rollback(run_store: StoreDep, body: ParameterRollback) -> dict[str, Any]:
    """Restores an old value as a new version, also of a locked parameter."""
    reserved_keys.check_not_reserved(body.key)
    params = open_parameters(run_store)
    params.rollback(body.key, body.version, body.reason, author=body.by)
    return _parameter_to_json(params, body.key)


@router.get("/rollouts")
def list_rollouts(run_store: StoreDep) -> dict[str, Any]:
    """Returns the rollouts with their guardrail intervals, and the saved shadow results."""
    params = open_parameters(run_store)
    rows = [
        text_limits.to_json_data(rollout_status.rollout_to_json(status), 2000)
        for status in rollout_status.load_rollouts(params)
    ]
    return {
        "rollouts": rows,
        "shadows": [text_limits.to_json_data(shadow, 2000) for shadow in rollout_status.load_shadow_results(params)],
    }


class RolloutUpdate(text_limits.RequestBody):
    """Update of a rollout."""

    key: Key


@router.post("/rollouts/update")
def update_rollout(run_store: StoreDep, clock: ClockDep, body: RolloutUpdate) -> dict[str, Any]:
    """Updates a rollout with the new feedback of the store: advances it, rolls it back, or leaves it.

    Call it regularly, for example every minute, with the token of a service.
    """
    state = rollout.Rollout(open_parameters(run_store), body.key, clock=clock).update(
        feedback_stores.SQLFeedback(run_store)
    )
    response: dict[str, Any] = text_limits.to_json_data(rollout_status.rollout_to_json(state), 2000)
    return response


@router.post("/rollouts/abort")
def abort(run_store: StoreDep, clock: ClockDep, body: ParameterChange) -> dict[str, Any]:
    """Aborts a rollout at any stage and rolls it back."""
    response: dict[str, Any] = text_limits.to_json_data(
        rollout_status.rollout_to_json(
            rollout.Rollout(open_parameters(run_store), body.key, clock=clock).abort(body.reason, author=body.by)
        ),
        2000,
    )
    return response


@router.get("/audit")
def verify_audit_log(run_store: StoreDep, cache: CacheDep) -> dict[str, Any]:
    """Verifies the complete change log and returns the newest changes.

    The result is cached for five times as long as the check took.
    """
    return cache.get("audit", object(), lambda: _verify_log(run_store))


def _verify_log(run_store: store.Store) -> dict[str, Any]:
    params = open_parameters(run_store)
    try:
        log_end = params.verify()
    except versions_errors.ChainBroken as error:
        return {"is_whole": False, "problem": str(error), "changes": None, "hash": None, "newest": []}
    newest = params.changes(after=max(0, log_end.seq - 50))
    rows = [
        {
            "seq": change.seq,
            "key": change.key,
            "kind": change.kind,
            "version": change.version,
            "author": text_limits.limit_text(change.author, 200),
            "reason": text_limits.limit_text(change.reason, 500),
            "at": change.timestamp.isoformat(),
        }
        for change in newest
    ]
    return {"is_whole": True, "problem": None, "changes": log_end.seq, "hash": log_end.hash, "newest": rows[::-1]}


def _format_value(value: Any, indent: int | None = None) -> str:
    """Formats a value: text unchanged, other values as JSON."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)
    except (TypeError, ValueError) as error:
        raise errors.StoreFailed(f"A value is not valid JSON: {error}.") from error

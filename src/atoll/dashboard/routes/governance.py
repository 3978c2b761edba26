"""What people decide: proposals, parameters, shadows and rollouts, and whether the log of all that is whole."""

import json
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import Field

from atoll import errors, governed, store
from atoll.dashboard import differences, plain
from atoll.dashboard.given import Kept, Limit, Remembered
from atoll.governed import reserved, rollout, standings
from atoll.governed.proposals.proposal import Proposal, Status
from atoll.store import refusals

router = APIRouter(prefix="/api/governance", tags=["governance"])

MAX_VALUE = 20_000  # characters of a value
KeyQuery = Annotated[str, Query(min_length=1, max_length=512, description="Which parameter.")]
Key = Annotated[str, Field(min_length=1, max_length=512)]


class Decision(plain.Said):
    """A decision on a proposal as it was looked at."""

    approve: bool
    content_hash: Annotated[str, Field(min_length=1, max_length=100)]


class Change(plain.Said):
    """A change of a parameter's lock, or the end of its rollout."""

    key: Key


class Rollback(Change):
    """Back to an old value, as a new version."""

    version: Annotated[int, Field(ge=1, le=2**53)]


def parameters(kept: store.Store) -> governed.Parameters:
    """Returns the parameters of a store that stays open."""
    return governed.StoredParameters(kept)


def evolution(kept: store.Store) -> governed.Evolution:
    return governed.Evolution(parameters(kept), governed.LATER)


@router.get("/proposals")
def proposals(kept: Kept, status: Status | None = None, limit: Limit = 100) -> dict[str, Any]:
    """Lists proposals, the newest first; those that wait come before the others."""
    made = evolution(kept)
    found = [each for each in made.history() if status in (None, each.status)][::-1]
    ordered = sorted(found, key=lambda each: each.status != "pending")
    told = [_row(made, each) for each in ordered[:limit]]
    return {"proposals": told, "total": len(found), "waiting": sum(each.status == "pending" for each in found)}


@router.get("/proposals/{proposal}")
def proposal(kept: Kept, proposal: str) -> dict[str, Any]:
    """Shows one proposal: what would change, why, who said what of it, and what a decision takes."""
    made = evolution(kept)
    found = made.proposals.get(proposal)
    needed = made.proposals.policy.needed(found)
    told = plain.data(found.to_json(), MAX_VALUE)
    told |= {"value_before": plain.data(made.value_before(found), MAX_VALUE), "needed": needed}
    return {**told, "approvals": len(found.approvals), "approvers": list(made.proposals.policy.approvers)}


@router.post("/proposals/{proposal}/decision")
def decide(kept: Kept, proposal: str, said: Decision) -> dict[str, Any]:
    """Approves or rejects a proposal; when enough have approved, it is carried out.

    Refused: no reason, no name, the author's own proposal, another content than the one that was looked at, or one
    that was decided or has expired.
    """
    made = evolution(kept)
    done = made.proposals.decide(
        proposal, said.by, approve=said.approve, reason=said.reason, content_hash=said.content_hash
    )
    done = made.apply(done.id) if done.status == "approved" else done
    return _row(made, done)


def _row(made: governed.Evolution, found: Proposal) -> dict[str, Any]:
    needed = made.proposals.policy.needed(found)
    told = {name: getattr(found, name) for name in ("id", "type", "title", "author", "risk", "status", "outcome")}
    times = {name: getattr(found, name).isoformat() for name in ("created_at", "expires_at")}
    counts = {"approvals": len(found.approvals), "needed": needed, "content_hash": found.content_hash}
    row: dict[str, Any] = plain.data({**told, **times, **counts}, 2000)
    return row


@router.get("/parameters")
def list_parameters(
    kept: Kept,
    prefix: Annotated[str, Query(max_length=512)] = "",
    after: Annotated[str, Query(max_length=512)] = "",
    everything: bool = False,
    limit: Limit = 100,
) -> dict[str, Any]:
    """Lists parameters by key: version, value, lock, aliases; without what has a place of its own, unless asked for."""
    known = parameters(kept)
    keys = [key for key in known.list(prefix) if key > after and (everything or not key.startswith(reserved.PREFIXES))]
    rows = [_parameter(known, key) for key in keys[:limit]]
    return {"parameters": rows, "total": len(keys), "next": keys[limit - 1] if len(keys) > limit else None}


def _parameter(known: governed.Parameters, key: str) -> dict[str, Any]:
    value, version = known.get(key)
    lock = known.lock_of(key)
    locked = None if lock is None else {"by": lock.author, "reason": lock.reason, "at": lock.timestamp.isoformat()}
    aliases = dict(known.aliases(key))
    return {"key": key, "version": version, "value": plain.text(_shown(value), 2000), "lock": locked} | {
        "aliases": aliases
    }


@router.get("/parameters/history")
def history(kept: Kept, key: KeyQuery, limit: Limit = 50) -> dict[str, Any]:
    """Lists the newest versions of a parameter, newest first, and whether it is locked."""
    known = parameters(kept)
    changes = [
        {
            "version": each.version,
            "value": plain.text(_shown(each.value), MAX_VALUE),
            "kind": each.kind,
            "target": each.target,
            "reason": plain.text(each.reason, 2000),
            "author": plain.text(each.author, 200),
            "at": each.timestamp.isoformat(),
        }
        for each in reversed(known.history(key, limit))
    ]
    return {**_parameter(known, key), "changes": changes}


@router.get("/parameters/difference")
def difference(
    kept: Kept, key: KeyQuery, new: Annotated[int, Query(ge=1, le=2**53)], old: Annotated[int, Query(ge=1, le=2**53)]
) -> dict[str, Any]:
    """Compares two versions of a parameter, as a patch of their text."""
    known = parameters(kept)
    before, after = (_shown(known.get(f"{key}@{each}").value, indent=2).splitlines() for each in (old, new))
    lines, _ = differences.unified(before, after, f"{key}@{old}", f"{key}@{new}")
    return {"key": key, "old": old, "new": new, "patch": plain.text("\n".join(lines))}


@router.post("/parameters/lock")
def lock(kept: Kept, said: Change) -> dict[str, Any]:
    """Refuses changes of a parameter, but for rollbacks, until it is unlocked."""
    known = parameters(kept)
    known.lock(said.key, said.reason, author=said.by)
    return _parameter(known, said.key)


@router.post("/parameters/unlock")
def unlock(kept: Kept, said: Change) -> dict[str, Any]:
    """Lets changes of a parameter in again."""
    known = parameters(kept)
    known.unlock(said.key, said.reason, author=said.by)
    return _parameter(known, said.key)


@router.post("/parameters/rollback")
def rollback(kept: Kept, said: Rollback) -> dict[str, Any]:
    """Makes an old value the newest again, as a new version; of a locked parameter too."""
    reserved.check_free(said.key)
    known = parameters(kept)
    known.rollback(said.key, said.version, said.reason, author=said.by)
    return _parameter(known, said.key)


@router.get("/rollouts")
def rollouts(kept: Kept) -> dict[str, Any]:
    """Shows where rollouts stand, with the intervals of what they guard, and the shadow runs that were kept."""
    known = parameters(kept)
    told = [plain.data(standings.told(each), 2000) for each in standings.rollouts(known)]
    return {"rollouts": told, "shadows": [plain.data(each, 2000) for each in standings.shadows(known)]}


@router.post("/rollouts/abort")
def abort(kept: Kept, said: Change) -> dict[str, Any]:
    """Rolls a rollout back by hand, whatever its stage."""
    told: dict[str, Any] = plain.data(
        standings.told(rollout.Rollout(parameters(kept), said.key).abort(said.reason, author=said.by)), 2000
    )
    return told


@router.get("/audit")
def audit(kept: Kept, memo: Remembered) -> dict[str, Any]:
    """Checks the log of all changes from its first to its last, and shows the newest.

    A long log is not checked anew each time that somebody asks: what took a second holds for five.
    """
    return memo.get("audit", object(), lambda: _verified(kept))


def _verified(kept: store.Store) -> dict[str, Any]:
    known = parameters(kept)
    try:
        found = known.verify()
    except refusals.ChainBroken as error:
        return {"is_whole": False, "problem": str(error), "changes": None, "hash": None, "newest": []}
    newest = known.changes(after=max(0, found.seq - 50))
    rows = [
        {
            "seq": each.seq,
            "key": each.key,
            "kind": each.kind,
            "version": each.version,
            "author": plain.text(each.author, 200),
            "reason": plain.text(each.reason, 500),
            "at": each.timestamp.isoformat(),
        }
        for each in newest
    ]
    return {"is_whole": True, "problem": None, "changes": found.seq, "hash": found.hash, "newest": rows[::-1]}


def _shown(value: Any, indent: int | None = None) -> str:
    """Returns a text as it is, and all else as JSON."""
    try:
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=indent)
    except (TypeError, ValueError) as error:
        raise errors.StoreFailed(f"A value cannot be shown: {error}.") from error

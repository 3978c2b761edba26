"""Checks of stored proposals and rollouts: who may write which step, and whether a change was approved.

`governed.approval` makes similar checks first. These checks also apply to code that writes to the store without it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from atoll.store.access.control import AccessControl, Principal
from atoll.store.versions.change import ChangeEntry, ChangeRequest, ChangeWriter
from atoll.store.versions.errors import AccessDenied

PROPOSAL_PREFIX, ROLLOUT_PREFIX, SHADOW_PREFIX = "proposals/", "rollout/", "shadow/"
PROPOSERS = ("agent", "proposer", "approver", "admin")
APPROVERS = ("approver", "admin")
_FIXED_FIELDS = (
    "id",
    "type",
    "title",
    "description",
    "rationale",
    "risk",
    "author",
    "created_at",
    "quorum",
    "evidence",
)
_APPLY_STEPS = {("approved", "applying"), ("applying", "applied"), ("applying", "failed")}
_ROLLOUT_STEPS = {
    "proposed": ("proposed", "shadow", "canary", "rolled_back"),
    "shadow": ("shadow", "canary", "rolled_back"),
    "canary": ("canary", "full", "rolled_back"),
    "full": ("full", "rolled_back"),
}
_DERIVED_FIELDS = ("version", "created_at", "updated_at", "usage_count", "success_rate", "applied")


class KeyValue(NamedTuple):
    """Parameter and value that a proposal sets."""

    key: str
    value: Any


def read_head(writer: ChangeWriter, key: str) -> ChangeEntry | None:
    """Returns the newest version of a key."""
    version = writer.get_state(key).version
    return writer.get_version(key, version) if version else None


def read_value(writer: ChangeWriter, key: str) -> Any:
    """Returns the newest value of a key, or None."""
    entry = read_head(writer, key)
    return None if entry is None else json.loads(entry.value or "null")


def hash_content(proposal: Mapping[str, Any]) -> str:
    """Returns the hash of type and content, to which approvals are bound."""
    text = json.dumps(
        [proposal.get("type"), proposal.get("content")], sort_keys=True, separators=(",", ":"), ensure_ascii=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def iter_changes(content: Any) -> Iterator[KeyValue]:
    """Yields the parameters that the content of a proposal sets."""
    if not isinstance(content, Mapping):
        return
    changes = content.get("changes", [content] if "key" in content else [])
    for item in changes if isinstance(changes, list | tuple) else ():
        if isinstance(item, Mapping) and "value" in item:
            yield KeyValue(str(item.get("key", "")), item["value"])


def get_quorum(control: AccessControl, proposal: Mapping[str, Any]) -> int:
    """Returns the number of approvals that a proposal needs: the highest of its own and those of its keys' policies."""
    recorded = proposal.get("quorum")
    quorums = [control.get_policy(key).quorum for key in list_keys(proposal)]
    return max([recorded if isinstance(recorded, int) else 1, *quorums], default=1)


def list_keys(proposal: Mapping[str, Any]) -> Sequence[str]:
    """Returns the keys that a proposal changes."""
    content: Any = proposal.get("content")
    kind = proposal.get("type")
    if kind in ("new_tool", "new_skill") and isinstance(content, Mapping):
        return [f"{'tools' if kind == 'new_tool' else 'skills'}/{content.get('name')}"]
    return [change.key for change in iter_changes(content)]


def count_approvals(control: AccessControl, proposal: Mapping[str, Any]) -> int:
    """Counts the approvers of the current content. With principals only those count that may still approve."""
    content_hash = hash_content(proposal)
    writers = {str(name).casefold() for name in (proposal.get("author"), *proposal.get("editors", ()))}
    names = {
        str(review["by"]).casefold()
        for review in proposal.get("reviews", ())
        if review.get("is_approval") and review.get("content_hash") == content_hash
    }
    return sum(_may_approve(control, name, proposal) for name in names - writers)


def list_approvers(control: AccessControl, proposal: Mapping[str, Any]) -> Sequence[str]:
    """Returns the principals who may still approve a proposal."""
    reviewers = [review["by"] for review in proposal.get("reviews", ())]
    others = {str(name).casefold() for name in (proposal.get("author"), *proposal.get("editors", ()), *reviewers)}
    return [
        principal.name
        for identity, principal in control.principals.items()
        if identity not in others and _may_approve(control, principal.name, proposal)
    ]


def _may_approve(control: AccessControl, name: str, proposal: Mapping[str, Any]) -> bool:
    principal = control.find(name)
    if control.is_single_user or principal is None:
        return control.is_single_user
    users = [control.get_policy(key).get_users("approve", APPROVERS) for key in list_keys(proposal)] or [APPROVERS]
    return all(principal.role in allowed or principal.name in allowed for allowed in users)


def find_problem(
    writer: ChangeWriter, control: AccessControl, request: ChangeRequest, batch: Mapping[str, ChangeRequest]
) -> str:
    """Returns why a change is not that of an approved proposal; empty if it is."""
    proposal_id, _, content_hash = (request.token or "").partition("/")
    proposal = read_value(writer, PROPOSAL_PREFIX + proposal_id) if proposal_id.startswith("p-") else None
    if not isinstance(proposal, Mapping):
        return "this change belongs to none. Submit one with 'atoll proposals submit'"
    if not hash_content(proposal).startswith(content_hash.partition("/")[0]) or len(content_hash) < 16:
        return f"proposal {proposal_id} has another content"
    if count_approvals(control, proposal) < get_quorum(control, proposal):
        return f"proposal {proposal_id} has too few approvals"
    if not _is_proposed(proposal, request):
        return f"proposal {proposal_id} proposes something else"
    key_policy, value = control.get_policy(request.key), json.loads(request.value or "null")
    if key_policy.needs("shadow") and not has_shadow_verdict(writer, request.key, value, "promote"):
        return "its shadow run did not promote the value. Run 'atoll rollout shadow'"
    rollout = batch.get(ROLLOUT_PREFIX + request.key)
    if rollout is None:
        if key_policy.needs("canary"):
            return "the key needs a canary. Start one with 'atoll rollout start'"
        return "" if proposal.get("status") == "applying" else f"proposal {proposal_id} is {proposal.get('status')}"
    return "" if proposal.get("status") in ("approved", "applying") else f"proposal {proposal_id} is not approved"


def has_shadow_verdict(writer: ChangeWriter, key: str, value: Any, verdict: str) -> bool:
    """Checks the verdict of the newest shadow run of a key, if it was for this value."""
    result = read_value(writer, SHADOW_PREFIX + key)
    return isinstance(result, Mapping) and result.get("verdict") == verdict and result.get("value") == value


def _is_proposed(proposal: Mapping[str, Any], request: ChangeRequest) -> bool:
    value, content = json.loads(request.value or "null"), proposal.get("content")
    match proposal.get("type"):
        case "optimize":
            return any(change == (request.key, value) for change in iter_changes(content))
        case "new_tool" | "new_skill" if isinstance(content, Mapping) and isinstance(value, Mapping):
            fields = {name: item for name, item in content.items() if name not in _DERIVED_FIELDS}
            return request.key in list_keys(proposal) and all(value.get(name) == fields[name] for name in fields)
        case "self_adjust" if isinstance(content, Mapping):
            adjustment = content.get("adjustment")
            suggested = adjustment if isinstance(adjustment, Mapping) else {}
            is_prompt = request.key == suggested.get("target") and value == suggested.get("suggestion")
            return is_prompt or request.key == f"reflections/{content.get('reflection')}"
    return False


def check_proposal(
    writer: ChangeWriter, control: AccessControl, principal: Principal | None, request: ChangeRequest
) -> None:
    """Checks a step of a proposal: one review, an edit, a closing or an application, each by its own author.

    In single-user mode (`principal` is None) it checks nothing.

    Raises:
        AccessDenied: The principal may not write this step.
    """
    if principal is None:
        return
    old, new = read_value(writer, request.key), json.loads(request.value or "null")
    if not isinstance(new, Mapping) or new.get("content_hash") != hash_content(new):
        raise AccessDenied(f"{request.key} does not match its content hash.")
    if not isinstance(old, Mapping):
        _check_new(control, principal, new)
        return
    if any((old.get(name) or None) != (new.get(name) or None) for name in _FIXED_FIELDS):
        raise AccessDenied(f"{request.key}: type, title, author, creation and evidence of a proposal cannot change.")
    if old["content"] != new["content"] or list(new.get("editors", ())) != list(old.get("editors", ())):
        _check_edit(control, principal, old, new)
    elif list(new["reviews"]) != list(old["reviews"]):
        _check_review(control, principal, old, new)
    elif (old["status"], new["status"]) in _APPLY_STEPS or _is_rollout_end(old, new):
        if principal.role not in ("service", *APPROVERS) or count_approvals(control, new) < get_quorum(control, new):
            raise AccessDenied(f"{principal.name} may not apply {new['id']}, or it has too few approvals.")
    elif new["status"] in ("withdrawn", "superseded", "rejected") and old["status"] in ("pending", "approved"):
        if principal.name != old["author"] and principal.role not in APPROVERS:
            raise AccessDenied(f"{principal.name} may not close {new['id']}. Its author or an approver can.")
    else:
        raise AccessDenied(f"{new['id']} cannot change from {old['status']} to {new['status']} without a review.")


def _is_rollout_end(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    return old["status"] == "approved" and new["status"] in ("applied", "failed")


def _check_new(control: AccessControl, principal: Principal, new: Mapping[str, Any]) -> None:
    _check_may_propose(control, principal, new)
    if new.get("author") != principal.name:
        raise AccessDenied(f"Your token is that of {principal.name}, so you cannot propose as {new.get('author')}.")
    if new.get("reviews") or new.get("editors") or new.get("status") != "pending":
        raise AccessDenied("A new proposal is pending and has no reviews.")


def _check_may_propose(control: AccessControl, principal: Principal, proposal: Mapping[str, Any]) -> None:
    for key in list_keys(proposal) or [""]:
        users = control.get_policy(key).get_users("propose", PROPOSERS)
        if principal.role not in users and principal.name not in users:
            raise AccessDenied(f"{principal.name} ({principal.role}) may not propose changes of {key or 'this kind'}.")


def _check_edit(control: AccessControl, principal: Principal, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    _check_may_propose(control, principal, new)
    editors = [*old.get("editors", ()), principal.name]
    if new["reviews"] or new["status"] != "pending" or list(new.get("editors", ())) != editors:
        raise AccessDenied("An edit makes you an editor and removes all reviews.")


def _check_review(control: AccessControl, principal: Principal, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    *earlier, review = new["reviews"]
    writers = [str(name).casefold() for name in (old["author"], *old.get("editors", ()))]
    if earlier != list(old["reviews"]) or old["status"] != "pending":
        raise AccessDenied("A review adds one decision to a pending proposal and changes no other.")
    if review.get("by") != principal.name:
        raise AccessDenied(f"Your token is that of {principal.name}, so you cannot decide as {review.get('by')}.")
    if not _may_approve(control, principal.name, new):
        raise AccessDenied(f"{principal.name} has the role {principal.role} and may not decide on {new['id']}.")
    if principal.identity in writers or any(item["by"] == principal.name for item in earlier):
        raise AccessDenied(f"{principal.name} wrote {new['id']} or has already decided on it.")
    if review.get("content_hash") != hash_content(new):
        raise AccessDenied("A review needs the hash of the content that was read.")
    is_complete = count_approvals(control, new) >= get_quorum(control, new)
    if new["status"] not in ("pending", "approved" if review.get("is_approval") and is_complete else "rejected"):
        raise AccessDenied(f"{new['id']} cannot be {new['status']} after this review.")


def check_rollout(
    writer: ChangeWriter, control: AccessControl, principal: Principal | None, request: ChangeRequest
) -> None:
    """Checks a step of a rollout. It starts from an approved proposal, and every stage follows the one before.

    Raises:
        AccessDenied: The step is not allowed.
    """
    old, new = read_value(writer, request.key), json.loads(request.value or "null")
    if principal is None and not (isinstance(new, Mapping) and control.get_policy(str(new.get("key"))).rules):
        return
    if not isinstance(new, Mapping):
        raise AccessDenied(f"{request.key} is not the state of a rollout.")
    key, stage = str(new.get("key")), new.get("stage")
    key_policy = control.get_policy(key)
    key_policy.check_value(new.get("value"))
    has_no_shadow_need = stage != "canary" or not key_policy.needs("shadow")
    if not has_no_shadow_need and not has_shadow_verdict(writer, key, new.get("value"), "promote"):
        raise AccessDenied(f"{key} needs a shadow run that promotes the value before its canary.")
    if old is None or old.get("is_settled"):
        _check_rollout_start(writer, control, principal, new)
        return
    is_same = all(old.get(name) == new.get(name) for name in ("key", "value", "proposal", "author", "plan"))
    if not is_same or stage not in _ROLLOUT_STEPS.get(str(old.get("stage")), ()):
        raise AccessDenied(f"The rollout of {key} cannot move from {old.get('stage')} to {stage} in this way.")
    if stage == "full" and old["stage"] == "canary" and old["step"] + 1 < len(old["plan"]["shares"]):
        raise AccessDenied(f"The rollout of {key} has canary steps left.")


def _check_rollout_start(
    writer: ChangeWriter, control: AccessControl, principal: Principal | None, new: Mapping[str, Any]
) -> None:
    key = new.get("key")
    if principal is None and not control.get_policy(str(key)).needs("proposal"):
        return
    proposal = read_value(writer, PROPOSAL_PREFIX + str(new.get("proposal")))
    if not isinstance(proposal, Mapping) or proposal.get("status") != "approved":
        raise AccessDenied(f"A rollout of {key} needs an approved proposal. Pass its id with --proposal.")
    if count_approvals(control, proposal) < get_quorum(control, proposal):
        raise AccessDenied(f"Proposal {proposal.get('id')} has too few approvals.")
    if (key, new.get("value")) not in list(iter_changes(proposal.get("content"))):
        raise AccessDenied(f"Proposal {proposal.get('id')} does not propose this value of {key}.")
    if new.get("stage") not in ("proposed", "canary") or new.get("step") or new.get("is_settled"):
        raise AccessDenied("A rollout starts with its first step.")

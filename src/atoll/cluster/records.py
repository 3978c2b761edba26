"""Records of a run from live objects, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll import evaluation, function
from atoll.archipelago import Ticket
from atoll.candidate import NOTHING, Candidate, digest
from atoll.evaluation import Evaluation
from atoll.gate import Decision
from atoll.journal import Record

type Child = tuple[function.Function, Decision]


def require(fn: function.Function) -> Candidate:
    """Returns the candidate of a settled function."""
    assert fn.candidate is not None, "the kernel keeps only what it settled"
    return fn.candidate


def judged(label: str, candidate: Candidate, found: Evaluation, paid: bool) -> Record:
    data = {**candidate_data(candidate), "label": label, "evaluation": evaluation.to_data(found), "paid": paid}
    return Record("judged", candidate.step, candidate.island, data)


def begun(ticket: Ticket) -> Record:
    data: dict[str, Any] = {"epoch": ticket.epoch, "seen": ticket.seen, "parents": _ids(ticket.pick.parents)}
    if ticket.pick.others:
        data["others"] = {role: _ids(fns) for role, fns in ticket.pick.others.items()}
    if ticket.advice:
        data["advice"] = dict(ticket.advice)
    if ticket.allowance is not None:
        data["allowance"] = ticket.allowance
    return Record("begun", ticket.step, ticket.island, data)


def child_data(fn: function.Function, decision: Decision) -> Mapping[str, Any]:
    """Returns a child's decision; its content too where no `judged` record holds it."""
    candidate = require(fn)
    rest = candidate_data(candidate) if fn.evaluation is None else {"id": candidate.id}
    return {**rest, "decision": decision_data(decision)}


def held(fn: function.Function) -> Record:
    candidate = require(fn)
    return Record(
        "held", candidate.step, candidate.island, {"id": candidate.id, "content_hash": digest(candidate.content)}
    )


def settled_data(fn: function.Function) -> Mapping[str, Any]:
    """Returns a function as plain data, whole."""
    found = fn.evaluation
    return {**candidate_data(require(fn)), "evaluation": evaluation.to_data(found) if found else None}


def candidate_data(candidate: Candidate) -> Mapping[str, Any]:
    data: dict[str, Any] = {"id": candidate.id, "content": candidate.content, "parents": list(candidate.parents)}
    data |= {"island": candidate.island, "step": candidate.step}
    return data | {"meta": dict(candidate.meta)} if candidate.meta else data


def to_candidate(data: Mapping[str, Any]) -> Candidate:
    return Candidate(
        data["id"], data["content"], tuple(data["parents"]), data["island"], data["step"], data.get("meta", NOTHING)
    )


def decision_data(decision: Decision) -> Sequence[Any]:
    return [decision.verdict, decision.reason, decision.by, decision.version]


def _ids(fns: Sequence[function.Function]) -> list[str]:
    return [require(fn).id for fn in fns]

"""Records of a run from live objects, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll import archipelago, evaluation, function, gate, journal
from atoll.candidate import NOTHING, Candidate, digest

type Child = tuple[function.Function, gate.Decision]


def require(fn: function.Function) -> Candidate:
    """Returns the candidate of a settled function."""
    assert fn.candidate is not None, "the kernel keeps only what it settled"
    return fn.candidate


def judged(label: str, candidate: Candidate, found: evaluation.Evaluation, paid: bool) -> journal.Record:
    data = {**candidate_data(candidate), "label": label, "evaluation": evaluation.to_data(found), "paid": paid}
    return journal.Record("judged", candidate.step, candidate.island, data)


def begun(ticket: archipelago.Ticket) -> journal.Record:
    data: dict[str, Any] = {"epoch": ticket.epoch, "seen": ticket.seen, "parents": _ids(ticket.pick.parents)}
    if ticket.pick.others:
        data["others"] = {role: _ids(fns) for role, fns in ticket.pick.others.items()}
    if ticket.advice:
        data["advice"] = dict(ticket.advice)
    if ticket.allowance is not None:
        data["allowance"] = ticket.allowance
    return journal.Record("begun", ticket.step, ticket.island, data)


def child_data(fn: function.Function, decision: gate.Decision) -> Mapping[str, Any]:
    """Returns a child's decision; its content too where no `judged` record holds it."""
    candidate = require(fn)
    rest = candidate_data(candidate) if fn.evaluation is None else {"id": candidate.id}
    return {**rest, "decision": decision_data(decision)}


def held(fn: function.Function) -> journal.Record:
    candidate = require(fn)
    data = {"id": candidate.id, "content_hash": digest(candidate.content)}
    return journal.Record("held", candidate.step, candidate.island, data)


def settled_data(fn: function.Function) -> Mapping[str, Any]:
    """Returns a function as plain data, whole."""
    found = fn.evaluation
    return {**candidate_data(require(fn)), "evaluation": evaluation.to_data(found) if found else None}


def candidate_data(candidate: Candidate) -> Mapping[str, Any]:
    data: dict[str, Any] = {"id": candidate.id, "content": candidate.content, "parents": list(candidate.parents)}
    data |= {"island": candidate.island, "step": candidate.step}
    return data | {"meta": dict(candidate.meta)} if candidate.meta else data


def to_candidate(data: Mapping[str, Any]) -> Candidate:
    born = (data["id"], data["content"], tuple(data["parents"]), data["island"], data["step"])
    return Candidate(*born, data.get("meta", NOTHING))


def decision_data(decision: gate.Decision) -> Sequence[Any]:
    return [decision.verdict, decision.reason, decision.by, decision.version]


def _ids(fns: Sequence[function.Function]) -> list[str]:
    return [require(fn).id for fn in fns]

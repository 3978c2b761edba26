"""Conversion between live objects and journal records."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll import archipelago, evaluation, function, gate, journal
from atoll.candidate import EMPTY, Candidate, content_hash

type Child = tuple[function.Function, gate.Decision]


def require_candidate(fn: function.Function) -> Candidate:
    """Returns the candidate of a function that has one."""
    assert fn.candidate is not None, "populations hold only functions with a candidate"
    return fn.candidate


def make_evaluated_record(
    label: str, candidate: Candidate, result: evaluation.Evaluation, paid: bool
) -> journal.Record:
    data = {**candidate_to_data(candidate), "label": label, "evaluation": evaluation.to_data(result), "paid": paid}
    return journal.Record(journal.EVALUATED, candidate.iteration, candidate.island, data)


def make_issued_record(pending: archipelago.PendingIteration) -> journal.Record:
    selection = pending.selection
    data: dict[str, Any] = {"epoch": pending.epoch, "seen": pending.applied_count}
    data["parents"] = _get_ids(selection.parents)
    if selection.inspirations:
        data["others"] = {role: _get_ids(fns) for role, fns in selection.inspirations.items()}
    if pending.advice:
        data["advice"] = dict(pending.advice)
    limits = {"allowance": pending.max_evaluations, "max_calls": pending.max_calls}
    data |= {name: limit for name, limit in limits.items() if limit is not None}
    return journal.Record(journal.ISSUED, pending.iteration, pending.island, data)


def child_to_data(fn: function.Function, decision: gate.Decision) -> Mapping[str, Any]:
    """Returns a child's decision, with its content if the child has no evaluation record."""
    candidate = require_candidate(fn)
    candidate_fields = candidate_to_data(candidate) if fn.evaluation is None else {"id": candidate.id}
    return {**candidate_fields, "decision": decision_to_data(decision)}


def make_held_record(fn: function.Function) -> journal.Record:
    candidate = require_candidate(fn)
    data = {"id": candidate.id, "content_hash": content_hash(candidate.content)}
    return journal.Record(journal.HELD, candidate.iteration, candidate.island, data)


def fn_to_data(fn: function.Function) -> Mapping[str, Any]:
    """Returns a function as plain data, with its content and evaluation."""
    result = fn.evaluation
    return {**candidate_to_data(require_candidate(fn)), "evaluation": evaluation.to_data(result) if result else None}


def candidate_to_data(candidate: Candidate) -> Mapping[str, Any]:
    data: dict[str, Any] = {"id": candidate.id, "content": candidate.content, "parents": list(candidate.parents)}
    data |= {"island": candidate.island, "step": candidate.iteration}
    return data | {"meta": dict(candidate.meta)} if candidate.meta else data


def candidate_from_data(data: Mapping[str, Any]) -> Candidate:
    fields = (data["id"], data["content"], tuple(data["parents"]), data["island"], data["step"])
    return Candidate(*fields, data.get("meta", EMPTY))


def decision_to_data(decision: gate.Decision) -> Sequence[Any]:
    return [decision.verdict, decision.reason, decision.decided_by, decision.version]


def _get_ids(fns: Sequence[function.Function]) -> list[str]:
    return [require_candidate(fn).id for fn in fns]

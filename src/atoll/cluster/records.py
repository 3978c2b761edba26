"""Records of a run from live objects, and back."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll import archipelago, evaluation, function, gate, journal
from atoll.candidate import EMPTY, Candidate, content_hash

type Child = tuple[function.Function, gate.Decision]


def require_candidate(fn: function.Function) -> Candidate:
    """Returns the candidate of a settled function."""
    assert fn.candidate is not None, "the kernel keeps only what it settled"
    return fn.candidate


def make_evaluated_record(
    label: str, candidate: Candidate, result: evaluation.Evaluation, paid: bool
) -> journal.Record:
    data = {**candidate_to_data(candidate), "label": label, "evaluation": evaluation.to_data(result), "paid": paid}
    return journal.Record("judged", candidate.iteration, candidate.island, data)


def make_issued_record(pending: archipelago.PendingIteration) -> journal.Record:
    data: dict[str, Any] = {
        "epoch": pending.epoch,
        "seen": pending.applied_count,
        "parents": _get_ids(pending.selection.parents),
    }
    if pending.selection.inspirations:
        data["others"] = {role: _get_ids(fns) for role, fns in pending.selection.inspirations.items()}
    if pending.advice:
        data["advice"] = dict(pending.advice)
    if pending.max_evaluations is not None:
        data["allowance"] = pending.max_evaluations
    return journal.Record("begun", pending.iteration, pending.island, data)


def child_to_data(fn: function.Function, decision: gate.Decision) -> Mapping[str, Any]:
    """Returns a child's decision; its content too where no `judged` record holds it."""
    candidate = require_candidate(fn)
    candidate_fields = candidate_to_data(candidate) if fn.evaluation is None else {"id": candidate.id}
    return {**candidate_fields, "decision": decision_to_data(decision)}


def make_held_record(fn: function.Function) -> journal.Record:
    candidate = require_candidate(fn)
    data = {"id": candidate.id, "content_hash": content_hash(candidate.content)}
    return journal.Record("held", candidate.iteration, candidate.island, data)


def fn_to_data(fn: function.Function) -> Mapping[str, Any]:
    """Returns a function as plain data, whole."""
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

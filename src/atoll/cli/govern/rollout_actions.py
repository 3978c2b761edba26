"""Rollouts, traffic checks and suggested values for the command line."""

import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from atoll import errors, llm
from atoll.cli.data import log_sources
from atoll.governed import approval as governed_approval
from atoll.governed import parameters, rollout, statistics
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.rollout import parameter_evolver, proposers, shadow_result

METHODS = ("ema", "pid", "thompson", "llm")
VALUE_FIELD = "value"  # meta data of feedback: the parameter value that was in use


def parse_guardrails(texts: Sequence[str]) -> Sequence[shadow_result.Guardrail]:
    return [shadow_result.Guardrail.parse(text) for text in texts]


def build_approval(
    param_store: parameters.Parameters, key: str, candidate: Any, *, proposer: str, approver: str, reason: str
) -> tuple[parameter_evolver.ParameterProposal, parameter_evolver.Approval]:
    """Makes a proposal and its approval."""
    version = param_store.get(key).version
    proposal = parameter_evolver.ParameterProposal(f"{key}@{version}+{proposer}", key, candidate, proposer, version)
    return proposal, parameter_evolver.Approval.for_proposal(
        proposal, is_approved=True, approver=approver, reason=reason
    )


def require_rollout(param_store: parameters.Parameters, key: str, candidate: Any) -> rollout.RolloutPlan:
    """Returns the plan of a rollout. Raises SetupError unless the rollout of a key needs a shadow run of this value."""
    state = rollout.Rollout(param_store, key).state()
    if state is None or state.stage not in ("proposed", "shadow"):
        raise errors.SetupError(f"{key} has no rollout that needs a shadow run. Start one with 'atoll rollout start'.")
    if state.value != candidate:
        raise errors.SetupError(
            f"The rollout of {key} tests {json.dumps(state.value)}. Run the shadow with that value."
        )
    return state.plan


def start_rollout(
    param_store: parameters.Parameters,
    key: str,
    candidate: Any,
    plan_options: Mapping[str, Any],
    *,
    proposer: str,
    approver: str,
    reason: str,
    proposal_id: str | None = None,
) -> rollout.RolloutState:
    """Starts the rollout of a value that `approver` approves, or of an approved proposal.

    Raises:
        Conflict: The proposal is not approved.
        SetupError: The proposal proposes another value.
    """
    plan = rollout.RolloutPlan(**plan_options)
    if proposal_id is not None:
        stored = governed_approval.Proposals(param_store).get(proposal_id)
        if (key, candidate) not in stored.changes:
            raise errors.SetupError(f"Proposal {proposal_id} does not propose this value of {key}.")
        return rollout.start_approved(param_store, stored, plan, reason=reason)
    proposal, approval = build_approval(
        param_store, key, candidate, proposer=proposer, approver=approver, reason=reason
    )
    return rollout.Rollout(param_store, key).start(proposal, approval, plan)


def update_rollout(
    param_store: parameters.Parameters, key: str, feedback_source: str | None
) -> tuple[rollout.RolloutState, Mapping[str, Mapping[str, Any]]]:
    """Updates a rollout with new feedback. Returns its state, and the traffic split of the new feedback by metric."""
    parameter_rollout = rollout.Rollout(param_store, key)
    previous = parameter_rollout.state()
    if feedback_source is None:
        state = parameter_rollout.update()
    else:
        with log_sources.open_feedback(feedback_source) as channel:
            state = parameter_rollout.update(channel)
    return state, {} if previous is None else check_traffic(previous, state)


def check_traffic(previous: rollout.RolloutState, state: rollout.RolloutState) -> Mapping[str, Mapping[str, Any]]:
    """Compares the arms of new feedback with the planned share. A mismatch makes the comparison unreliable."""
    checks: dict[str, Mapping[str, Any]] = {}
    for metric in state.arms if previous.stage == "canary" else ():
        num_baseline, num_candidate = (
            state.moments(metric, arm).count - previous.moments(metric, arm).count for arm in ("baseline", "candidate")
        )
        if num_baseline + num_candidate > 0:
            check = statistics.check_ratio(num_baseline, num_candidate, previous.share)
            checks[metric] = {"baseline": num_baseline, "candidate": num_candidate, **check._asdict()}
    return checks


def suggest_value(
    param_store: parameters.Parameters,
    key: str,
    feedback_source: str,
    *,
    method: str,
    metric: str,
    setpoint: float | None,
    llm_name: str | None,
) -> dict[str, Any]:
    """Returns the suggested value with confidence, rationale, current value and number of measurements.

    Raises:
        SetupError: The method is unknown, or an option or the feedback is missing.
    """
    if method not in METHODS:
        raise errors.SetupError(f"Method {method!r:.40} is unknown. Use one of {', '.join(METHODS)}.")
    current = param_store.get(key).value
    with log_sources.open_feedback(feedback_source) as channel:
        since = datetime(1970, 1, 1, tzinfo=UTC)
        evidence = [record for entity in channel.list_entities() for record in channel.query(entity, since, metric)]
    proposer = _make_proposer(method, param_store, evidence, metric, setpoint, llm_name)
    suggestion = parameter_evolver.ParameterEvolver(param_store, proposer).propose(key, evidence)
    return {
        "key": key,
        "method": method,
        "current": current,
        **suggestion._asdict(),
        "rationale": getattr(proposer, "rationale", ""),
        "evidence": len(evidence),
    }


def _make_proposer(
    method: str,
    param_store: parameters.Parameters,
    evidence: Sequence[Feedback],
    metric: str,
    setpoint: float | None,
    llm_name: str | None,
) -> proposers.Proposer:
    def read_value(key: str) -> Any:
        return param_store.get(key).value

    def read_number(key: str) -> float:
        value = read_value(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise errors.SetupError(f"{key} is {value!r:.40}, not a number. Use --method thompson or llm.")
        return float(value)

    if method == "ema":
        return proposers.EMAProposer(metric=metric, get_initial_value=read_number)
    if method == "pid":
        if setpoint is None:
            raise errors.SetupError("--method pid needs --setpoint X, the desired value of the metric.")
        return proposers.PIDProposer(read_number, setpoint, metric)
    if method == "thompson":
        values = [record.meta[VALUE_FIELD] for record in evidence if record.meta and VALUE_FIELD in record.meta]
        distinct_values = {json.dumps(value, sort_keys=True): value for value in values}.values()
        return proposers.ThompsonProposer(list(distinct_values), metric, VALUE_FIELD)
    client = llm.make_llm(llm_name) if llm_name else None
    if client is None:
        raise errors.SetupError("--method llm needs --llm MODEL.")
    return proposers.LLMProposer(client, read_value, metric=metric)

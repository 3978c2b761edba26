"""Rollouts by what somebody typed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll import errors, store
from atoll.cli.data import log_sources
from atoll.cli.terminal import parsing
from atoll.governed import parameters, rollout
from atoll.governed.evidence import feedback_stores
from atoll.governed.rollout import parameter_evolver, shadow_result


def parse_guardrails(texts: Sequence[str]) -> Sequence[shadow_result.Guardrail]:
    """Reads what must not become worse.

    Raises:
        SetupError: One is not understood.
    """
    parsed = (parsing.parse_guardrail(text) for text in texts)
    return [shadow_result.Guardrail(metric, margin, lower_is_better=is_lower) for metric, margin, is_lower in parsed]


def build_approval(
    param_store: parameters.Parameters, key: str, candidate: Any, *, proposer: str, approver: str, reason: str
) -> tuple[parameter_evolver.ParameterProposal, parameter_evolver.Approval]:
    """Makes a proposal with its approval, for who decides on the spot."""
    version = param_store.get(key).version
    proposal = parameter_evolver.ParameterProposal(f"{key}@{version}+{proposer}", key, candidate, proposer, version)
    return proposal, parameter_evolver.Approval.for_proposal(
        proposal, is_approved=True, approver=approver, reason=reason
    )


def require_rollout(param_store: parameters.Parameters, key: str, candidate: Any) -> None:
    """Looks whether the rollout of a key waits for a shadow run of a value.

    Raises:
        SetupError: It does not, or of another value.
    """
    state = rollout.Rollout(param_store, key).state()
    if state is None or state.stage not in ("proposed", "shadow"):
        raise errors.SetupError(f"No rollout of {key} waits for a shadow run: 'atoll rollout start' begins one.")
    if state.value != candidate:
        raise errors.SetupError(f"The rollout of {key} is of {json.dumps(state.value)}: run the shadow of that value.")


def start_rollout(
    param_store: parameters.Parameters,
    key: str,
    candidate: Any,
    plan_options: Mapping[str, Any],
    *,
    proposer: str,
    approver: str,
    reason: str,
) -> rollout.RolloutState:
    """Begins the rollout of a value that somebody approves on the spot."""
    proposal, approval = build_approval(
        param_store, key, candidate, proposer=proposer, approver=approver, reason=reason
    )
    return rollout.Rollout(param_store, key).start(proposal, approval, rollout.RolloutPlan(**plan_options))


def update_rollout(param_store: parameters.Parameters, key: str, feedback_source: str | None) -> rollout.RolloutState:
    """Lets a rollout look at its measurements, and at what was reported to a channel since the last look."""
    if feedback_source is None:
        return rollout.Rollout(param_store, key).update()
    if Path(feedback_source).is_dir():
        return rollout.Rollout(param_store, key).update(
            feedback_stores.FileFeedback(log_sources.require_path(feedback_source))
        )
    with store.Store(log_sources.require_path(feedback_source)) as run_store:
        return rollout.Rollout(param_store, key).update(feedback_stores.SQLFeedback(run_store))

"""Status of rollouts and shadow runs as JSON data, for the command line and the dashboard."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll.governed.parameters import Parameters
from atoll.governed.rollout.rollout import Rollout
from atoll.governed.rollout.shadow_result import Guardrail, ShadowResult
from atoll.governed.rollout.state import STATE_PREFIX, RolloutState

SHADOW_PREFIX = "shadow/"  # prefix of the newest saved shadow result of a parameter


def load_rollouts(parameter_store: Parameters) -> Sequence[RolloutState]:
    """Returns the states of all rollouts, sorted by key."""
    keys = [key.removeprefix(STATE_PREFIX) for key in parameter_store.list(STATE_PREFIX)]
    return [state for key in keys if (state := Rollout(parameter_store, key).state())]


def rollout_to_json(state: RolloutState) -> Mapping[str, Any]:
    """Returns the state of a rollout as JSON data, with the evidence on its guardrails."""
    guardrails = {guardrail.metric: _guardrail_to_json(guardrail, state) for guardrail in state.guardrails}
    data = {name: value for name, value in state.to_data().items() if name not in ("strata", "exposed")}
    ratio = state.check_ratio()
    return {
        **data,
        "share": state.share,
        "guarded": guardrails,
        "sample_ratio": None if ratio is None else ratio._asdict(),
    }


def save_shadow_result(
    parameter_store: Parameters, key: str, candidate: Any, result: ShadowResult, author: str
) -> None:
    """Saves the result of a shadow run in the store."""
    reason = f"{result.verdict}: {result.reason}"
    parameter_store.set(SHADOW_PREFIX + key, {"value": candidate, **result.to_data()}, reason, author=author)


def load_shadow_results(parameter_store: Parameters) -> Sequence[Mapping[str, Any]]:
    """Returns the newest saved shadow result of every parameter."""
    results = []
    for key in parameter_store.list(SHADOW_PREFIX):
        (change,) = parameter_store.history(key, 1)
        header = {"key": key.removeprefix(SHADOW_PREFIX), "at": change.timestamp.isoformat(), "by": change.author}
        results.append({**header, **change.value})
    return results


def _guardrail_to_json(guardrail: Guardrail, state: RolloutState) -> Mapping[str, Any]:
    evidence = state.evidence(guardrail.metric)
    return {
        "margin": guardrail.allowed_loss,
        "estimate": evidence.estimate,
        "interval": [None if abs(bound) == float("inf") else bound for bound in evidence.interval],
        "baseline": state.moments(guardrail.metric, "baseline").count,
        "candidate": state.moments(guardrail.metric, "candidate").count,
    }

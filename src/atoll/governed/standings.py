"""Where rollouts and shadow runs stand, as plain data: what people look at before they decide."""

from collections.abc import Mapping, Sequence
from typing import Any

from atoll.governed import parameters, rollout, shadow

SHADOWS = "shadow/"  # before the key of a parameter: the newest shadow run of it that was kept


def rollouts(kept: parameters.Parameters) -> Sequence[rollout.State]:
    """Returns where all rollouts stand, by key."""
    keys = [key.removeprefix(rollout.STATE_PREFIX) for key in kept.list(rollout.STATE_PREFIX)]
    return [state for key in keys if (state := rollout.Rollout(kept, key).state())]


def told(state: rollout.State) -> Mapping[str, Any]:
    """Returns where a rollout stands as plain data, with what is known of its guardrails."""
    guarded = {each.metric: _guarded(each, state) for each in state.plan.guardrails}
    return {**state.to_data(), "share": state.share, "guarded": guarded}


def keep_shadow(kept: parameters.Parameters, key: str, candidate: Any, result: shadow.ShadowResult, by: str) -> None:
    """Keeps what a shadow run found, for whoever decides later and for the audit log."""
    said = f"{result.verdict}: {result.reason}"
    kept.set(SHADOWS + key, {"value": candidate, **result.to_data()}, said, author=by)


def shadows(kept: parameters.Parameters) -> Sequence[Mapping[str, Any]]:
    """Returns the newest shadow run of every parameter of which one was kept."""
    found = []
    for key in kept.list(SHADOWS):
        (change,) = kept.history(key, 1)
        told = {"key": key.removeprefix(SHADOWS), "at": change.timestamp.isoformat(), "by": change.author}
        found.append({**told, **change.value})
    return found


def _guarded(guardrail: shadow.Guardrail, state: rollout.State) -> Mapping[str, Any]:
    found = state.evidence(guardrail.metric)
    return {
        "margin": guardrail.margin,
        "estimate": found.estimate,
        "interval": [None if abs(end) == float("inf") else end for end in found.interval],
        "baseline": state.moments(guardrail.metric, "baseline").count,
        "candidate": state.moments(guardrail.metric, "candidate").count,
    }

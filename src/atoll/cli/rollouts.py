"""Rollouts by what somebody typed."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll import errors, store
from atoll.cli import places, values
from atoll.governed import evolver, feedback, parameters, rollout, shadow


def guardrails(said: Sequence[str]) -> Sequence[shadow.Guardrail]:
    """Reads what must not become worse.

    Raises:
        SetupError: One is not understood.
    """
    found = (values.guardrail(each) for each in said)
    return [shadow.Guardrail(metric, margin, lower_is_better=is_lower) for metric, margin, is_lower in found]


def approved(
    kept: parameters.Parameters, key: str, candidate: Any, *, author: str, by: str, reason: str
) -> tuple[evolver.Change, evolver.Approval]:
    """Makes a proposal with its approval, for who decides on the spot."""
    version = kept.get(key).version
    proposal = evolver.Change(f"{key}@{version}+{author}", key, candidate, author, version)
    return proposal, evolver.Approval.of(proposal, is_approved=True, by=by, reason=reason)


def check_waiting(kept: parameters.Parameters, key: str, candidate: Any) -> None:
    """Looks whether the rollout of a key waits for a shadow run of a value.

    Raises:
        SetupError: It does not, or of another value.
    """
    state = rollout.Rollout(kept, key).state()
    if state is None or state.stage not in ("proposed", "shadow"):
        raise errors.SetupError(f"No rollout of {key} waits for a shadow run: 'atoll rollout start' begins one.")
    if state.value != candidate:
        raise errors.SetupError(f"The rollout of {key} is of {json.dumps(state.value)}: run the shadow of that value.")


def start(
    kept: parameters.Parameters, key: str, candidate: Any, plan: Mapping[str, Any], *, author: str, by: str, reason: str
) -> rollout.State:
    """Begins the rollout of a value that somebody approves on the spot."""
    proposal, approval = approved(kept, key, candidate, author=author, by=by, reason=reason)
    return rollout.Rollout(kept, key).start(proposal, approval, rollout.Plan(**plan))


def tick(kept: parameters.Parameters, key: str, channel: str | None) -> rollout.State:
    """Lets a rollout look at its measurements, and at what was reported to a channel since the last look."""
    if channel is None:
        return rollout.Rollout(kept, key).tick()
    if Path(channel).is_dir():
        return rollout.Rollout(kept, key).tick(feedback.FileFeedback(places.there(channel)))
    with store.Store(places.there(channel)) as opened:
        return rollout.Rollout(kept, key).tick(feedback.StoredFeedback(opened))

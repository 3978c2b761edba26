"""Fitness weights as a versioned parameter. A gate decides on changes, and old versions can be restored.

With `weights = "@param:mind/weights"` in its section `[mind]`, a task starts each run with the current weights.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import NamedTuple

from atoll import errors, evaluation, gate, governed
from atoll.candidate import Candidate
from atoll.mind.fitness import BALANCED, Weights, parse_weights
from atoll.mind.worldline import METRICS

KEY = "mind/weights"
_SIGNS = {name: -1.0 if name == "resource_cost" else 1.0 for name in METRICS}


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """Reads and changes stored weights.

    Attributes:
        parameters: Parameter store, such as `governed.StoredParameters("atoll.db")`.
        approval_gate: Decides on each change, such as `gate.hold_all`, which holds every change for approval.
        key: Key of the parameter.
    """

    parameters: governed.ParameterStore
    approval_gate: gate.Gate
    key: str = KEY

    def get_current(self) -> tuple[Weights, int]:
        """Returns the current weights and their version. The default weights are version 0."""
        try:
            value, version = self.parameters.get(self.key)
        except errors.NotFound:
            return BALANCED, 0
        return parse_weights(value), version

    def propose(self, weights: Weights, reason: str, author: str) -> gate.Decision:
        """Asks the gate to approve new weights. If accepted, the decision names the new version."""
        current, version = self.get_current()
        parents, content = (f"{self.key}@{version}",), json.dumps(weights.to_list())
        candidate = Candidate(f"{self.key}@{version + 1}", content, parents, meta={"reason": reason, "author": author})
        result = evaluation.Evaluation(0.0, metrics=dict(zip(METRICS, weights.to_list(), strict=True)))
        decision = self.approval_gate(gate.Proposal(candidate, result, (evaluation.Evaluation(0.0),)))
        if decision.verdict != "accept" or weights == current:
            return decision
        new_version = self.parameters.set(self.key, weights.to_list(), reason, author=author, expected_version=version)
        return replace(decision, version=f"{self.key}@{new_version}")

    def rollback(self, version: int, reason: str, author: str) -> Weights:
        """Restores old weights as a new version.

        Raises:
            NotFound: The version is not stored.
        """
        self.parameters.rollback(self.key, version, reason, author=author)
        return self.get_current()[0]


class LearnedWeights(NamedTuple):
    """Weights before and after learning, with their versions."""

    old: Weights
    old_version: int
    new: Weights
    new_version: int


def learn_weights(
    parameters: governed.ParameterStore,
    approved: Sequence[Mapping[str, float]],
    rejected: Sequence[Mapping[str, float]],
    reason: str,
    author: str,
    rate: float = 0.1,
) -> LearnedWeights:
    """Stores weights that separate approved worldlines better from rejected ones.

    Args:
        parameters: Parameter store. The old version stays and can be restored.
        approved: Raw metrics of approved worldlines.
        rejected: Raw metrics of rejected worldlines.
        reason: Reason of the change.
        author: Author of the change.
        rate: Largest change of a weight, before scaling.

    Raises:
        SetupError: One of the two groups is empty.
    """
    if not approved or not rejected:
        raise errors.SetupError("Weights need approved and other worldlines with metrics. Review some, then learn.")
    stored = StoredWeights(parameters, lambda proposal: gate.Decision("accept", reason, author))
    old, old_version = stored.get_current()
    if not old_version:  # store the default weights too, so that they can be restored
        old_version = parameters.set(KEY, old.to_list(), "default weights", author=author, expected_version=0)
    new = update_weights(old, _compute_means(approved), _compute_means(rejected), rate)
    stored.propose(new, reason, author)
    return LearnedWeights(old, old_version, *stored.get_current())


def _compute_means(rows: Sequence[Mapping[str, float]]) -> dict[str, float]:
    return {name: fmean(row.get(name, 0.0) for row in rows) for name in METRICS}


def update_weights(
    current: Weights, approved: Mapping[str, float], rejected: Mapping[str, float], rate: float = 0.1
) -> Weights:
    """Returns weights that separate an approved worldline better from a rejected one, as a proposal for a gate.

    Each weight moves by the difference of its term. The sum of absolute weights stays the same.
    """
    old_weights = dict(zip(METRICS, current.to_list(), strict=True))
    new_weights = dict[str, float]()
    for name, weight in old_weights.items():
        difference = approved.get(name, 0.0) - rejected.get(name, 0.0)
        gain = -difference if name == "divergence" else difference  # its term is 1 - divergence
        new_weights[name] = weight + rate * _SIGNS[name] * gain
    total = sum(abs(weight) for weight in new_weights.values()) or 1.0
    scale = sum(abs(weight) for weight in old_weights.values()) / total
    return parse_weights([new_weights[name] * scale for name in METRICS])

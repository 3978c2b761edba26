"""The weights of the fitness as a parameter: they change only through a gate, and can be rolled back.

A task that says `weights = "@param:mind/weights"` in its section `[mind]` begins every run with those that count then.
"""

import json
from dataclasses import dataclass, replace

from atoll import errors, evaluation, gate, governed
from atoll.candidate import Candidate
from atoll.mind.fitness import BALANCED, Weights, parse_weights
from atoll.mind.worldline import METRICS

KEY = "mind/weights"
_SIGNS = {name: -1.0 if name == "resource_cost" else 1.0 for name in METRICS}


@dataclass(frozen=True, slots=True)
class StoredWeights:
    """Where weights are kept.

    Attributes:
        kept: The parameters, such as `governed.StoredParameters("atoll.db")`.
        guard: Asked about every change, such as `gate.ask`, which lets nothing change without somebody's word.
        key: Under which they are kept.
    """

    parameters: governed.ParameterStore
    approval_gate: gate.Gate
    key: str = KEY

    def get_current(self) -> tuple[Weights, int]:
        """Returns the weights that count now and the number of their version; the usual ones are version 0."""
        try:
            value, version = self.parameters.get(self.key)
        except errors.NotFound:
            return BALANCED, 0
        return parse_weights(value), version

    def propose(self, weights: Weights, reason: str, author: str) -> gate.Decision:
        """Asks the gate for other weights; accepted, they become a new version, which the decision names."""
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
        """Brings old weights back, as a new version.

        Raises:
            NotFound: There is no such version.
        """
        self.parameters.rollback(self.key, version, reason, author=author)
        return self.get_current()[0]


def update_weights(
    current: Weights, approved: dict[str, float], rejected: dict[str, float], rate: float = 0.1
) -> Weights:
    """Returns weights that tell an approved worldline from a rejected one better: a wish, for a gate to decide on.

    Every weight moves by what the approved one has more of its term, and their absolute sum stays what it was.
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

"""The weights of the fitness as a parameter: they change only through a gate, and can be rolled back.

A task that says `weights = "@param:mind/weights"` in its section `[mind]` begins every run with those that count then.
"""

import json
from dataclasses import dataclass, replace

from atoll import errors, evaluation, gate, governed
from atoll.candidate import Candidate
from atoll.mind.fitness import BALANCED, Weights, weights_of
from atoll.mind.worldline import METRICS

KEY = "mind/weights"
_SIGNS = {name: -1.0 if name == "resource_cost" else 1.0 for name in METRICS}


@dataclass(frozen=True, slots=True)
class WeightBook:
    """Where weights are kept.

    Attributes:
        kept: The parameters, such as `governed.StoredParameters("atoll.db")`.
        guard: Asked about every change, such as `gate.ask`, which lets nothing change without somebody's word.
        key: Under which they are kept.
    """

    kept: governed.ParameterStore
    guard: gate.Gate
    key: str = KEY

    def current(self) -> tuple[Weights, int]:
        """Returns the weights that count now and the number of their version; the usual ones are version 0."""
        try:
            value, version = self.kept.get(self.key)
        except errors.NotFound:
            return BALANCED, 0
        return weights_of(value), version

    def propose(self, wanted: Weights, reason: str, author: str) -> gate.Decision:
        """Asks the gate for other weights; accepted, they become a new version, which the decision names."""
        standing, number = self.current()
        parents, said = (f"{self.key}@{number}",), json.dumps(wanted.to_list())
        asked = Candidate(f"{self.key}@{number + 1}", said, parents, meta={"reason": reason, "author": author})
        found = evaluation.Evaluation(0.0, metrics=dict(zip(METRICS, wanted.to_list(), strict=True)))
        decision = self.guard(gate.Proposal(asked, found, (evaluation.Evaluation(0.0),)))
        if decision.verdict != "accept" or wanted == standing:
            return decision
        made = self.kept.set(self.key, wanted.to_list(), reason, author=author, expected_version=number)
        return replace(decision, version=f"{self.key}@{made}")

    def rollback(self, number: int, reason: str, author: str) -> Weights:
        """Brings old weights back, as a new version.

        Raises:
            NotFound: There is no such version.
        """
        self.kept.rollback(self.key, number, reason, author=author)
        return self.current()[0]


def learnt(standing: Weights, approved: dict[str, float], rejected: dict[str, float], rate: float = 0.1) -> Weights:
    """Returns weights that tell an approved worldline from a rejected one better: a wish, for a gate to decide on.

    Every weight moves by what the approved one has more of its term, and their absolute sum stays what it was.
    """
    terms = dict(zip(METRICS, standing.to_list(), strict=True))
    moved = dict[str, float]()
    for name, weight in terms.items():
        more = approved.get(name, 0.0) - rejected.get(name, 0.0)
        gain = -more if name == "divergence" else more  # its term is 1 - divergence
        moved[name] = weight + rate * _SIGNS[name] * gain
    total = sum(abs(each) for each in moved.values()) or 1.0
    scale = sum(abs(each) for each in terms.values()) / total
    return weights_of([moved[name] * scale for name in METRICS])

"""Fitness as a weighted sum of features."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from atoll import errors, evaluation
from atoll.candidate import Candidate

type Feature = Callable[[Candidate], float]

CLIPPED_PREFIX = "clipped:"  # before the name of a feature in the breakdown, where features are clipped


class ParameterReader(Protocol):
    """What is needed of a store of parameters to read weights from it."""

    def get(self, key: str, /) -> tuple[Any, int]: ...


@dataclass(frozen=True, slots=True)
class ParameterWeight:
    """A weight that is a parameter: every score takes the value that the store holds at that moment."""

    store: ParameterReader
    key: str

    def read(self) -> float:
        """Returns the weight.

        Raises:
            NotFound: There is no such parameter.
            SetupError: It is no finite number.
        """
        value = self.store.get(self.key)[0]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise errors.SetupError(f"The weight {self.key} is {value!r:.80}: set it to a finite number.")
        return float(value)


class WeightedEvaluator:
    """Scores the sum of feature times weight; the breakdown holds the features as they are, not their parts of the sum.

    Args:
        features: By name; pure functions of the candidate.
        weights: One per feature. Negative ones say that less is better.
        clip: Clips every feature to [0, 1] before the sum, for features that mean shares. The breakdown then has the
            clipped values too, as `clipped:NAME`.

    Raises:
        SetupError: Features and weights do not fit; the message names everything that is wrong.
    """

    is_concurrency_safe = True

    def __init__(
        self,
        features: Mapping[str, Feature] | Sequence[tuple[str, Feature]],
        weights: Mapping[str, float | ParameterWeight],
        *,
        clip: bool = False,
    ) -> None:
        pairs = list(features.items() if isinstance(features, Mapping) else features)
        if problems := _find_problems([name for name, _ in pairs], weights):
            raise errors.SetupError(f"A weighted evaluator cannot be made: {'; '.join(problems)}.")
        self._features, self._weights, self._clip = dict(pairs), dict(weights), clip

    def features(self) -> Sequence[str]:
        """Returns the names of the features, sorted."""
        return sorted(self._features)

    def weights(self) -> Mapping[str, float]:
        """Returns a copy of the weights as they are now."""
        return {
            name: weight.read() if isinstance(weight, ParameterWeight) else float(weight)
            for name, weight in self._weights.items()
        }

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        """Returns the sum; a feature that is no finite number is a failure that names it."""
        raw = {name: float(feature(candidate)) for name, feature in self._features.items()}
        for name, value in raw.items():
            if not math.isfinite(value):
                return evaluation.failed(f"the feature {name} is {value}, which is no finite number")
        effective = {name: min(max(value, 0.0), 1.0) for name, value in raw.items()} if self._clip else raw
        weights = self.weights()
        metrics = {**raw, **{f"{CLIPPED_PREFIX}{name}": value for name, value in effective.items()}} if self._clip else raw
        return evaluation.Evaluation(math.fsum(effective[name] * weights[name] for name in effective), metrics=metrics)


def _find_problems(names: Sequence[str], weights: Mapping[str, float | ParameterWeight]) -> Sequence[str]:
    problems = [] if names else ["there is no feature"]
    problems += [f"the feature {name} is there twice" for name in sorted({n for n in names if names.count(n) > 1})]
    problems += [f"the feature {name} has no weight" for name in sorted(set(names) - set(weights))]
    problems += [f"the weight {name} has no feature" for name in sorted(set(weights) - set(names))]
    for name, weight in sorted(weights.items()):
        if not isinstance(weight, ParameterWeight) and not math.isfinite(weight):
            problems.append(f"the weight {name} is {weight}")
    return problems

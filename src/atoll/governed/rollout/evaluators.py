"""The contract of every evaluator."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Protocol, runtime_checkable

from atoll import errors, evaluation
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.governed import errors as governed_errors


class Evaluator(Protocol):
    """Scores candidates.

    Called from one thread unless it is `ConcurrencySafe`. A bad candidate is an evaluation with a failure, never an
    exception; higher scores are better. The breakdown by dimension is the evaluation's `metrics`.
    """

    def score(self, candidate: Candidate) -> Evaluation: ...


@runtime_checkable
class ConcurrencySafe(Protocol):
    """Says that several threads may score at once."""

    is_concurrency_safe: bool


def is_concurrency_safe(evaluator: Evaluator) -> bool:
    return isinstance(evaluator, ConcurrencySafe) and evaluator.is_concurrency_safe


def score_all(evaluator: Evaluator, candidates: Sequence[Candidate], *, workers: int = 1) -> Sequence[Evaluation]:
    """Scores many candidates, in their order; at the same time only where the evaluator says that it may be."""
    if workers > 1 and len(candidates) > 1 and is_concurrency_safe(evaluator):
        with ThreadPoolExecutor(min(workers, len(candidates))) as pool:
            return list(pool.map(evaluator.score, candidates))
    return [evaluator.score(candidate) for candidate in candidates]


class FuncEvaluator:
    """Scores by a function that returns a number, a number with its breakdown, or an `Evaluation`.

    What the function raises is the failure of its candidate.

    Args:
        fn: Compulsory.
        stop: Looked at before each call.
        is_concurrency_safe: Several threads may call it at once.
    """

    def __init__(
        self, fn: Callable[[Candidate], Any], *, stop: Event | None = None, is_concurrency_safe: bool = False
    ) -> None:
        if not callable(fn):
            raise errors.SetupError(f"A FuncEvaluator needs a function, not {fn!r}.")
        self._fn, self._stop, self.is_concurrency_safe = fn, stop, is_concurrency_safe

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        """Returns what the function found.

        Raises:
            Cancelled: It was told to stop.
        """
        governed_errors.check_cancelled(self._stop)
        result = errors.capture(lambda: self._fn(candidate), reraise=(governed_errors.Cancelled, errors.SetupError))
        if isinstance(result, errors.CaughtException):
            return evaluation.failed(str(result))
        match result:
            case (score_value, Mapping() as breakdown):
                return evaluation.validate(evaluation.Evaluation(score_value, metrics=dict(breakdown)))
            case (score_value, None):
                return evaluation.validate(score_value)
        return evaluation.validate(result)


@dataclass(frozen=True, slots=True)
class Rule:
    """A constraint with its name; `holds` is a pure function of the candidate."""

    name: str
    holds: Callable[[Candidate], bool]


class RuleEvaluator:
    """Fails a candidate that breaks a rule, naming all that it breaks; scores the others.

    Args:
        rules: Looked at in their order, all of them. A rule that raises is broken.
        then: Scores what breaks none; without it the score is 1.
    """

    def __init__(self, rules: Sequence[Rule], evaluator: Evaluator | None = None) -> None:
        if not rules:
            raise errors.SetupError("A rule evaluator needs a rule at least.")
        self._rules, self._evaluator = tuple(rules), evaluator
        self.is_concurrency_safe = evaluator is None or is_concurrency_safe(evaluator)

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        violations = [violation for rule in self._rules if (violation := _describe_violation(rule, candidate))]
        if violations:
            return evaluation.failed(f"broke {'; '.join(violations)}", feedback="\n".join(violations))
        result = self._evaluator.score(candidate) if self._evaluator else evaluation.Evaluation(1.0)
        return replace(result, metrics={**result.metrics, "num_rules": float(len(self._rules))})


def _describe_violation(rule: Rule, candidate: Candidate) -> str:
    outcome = errors.capture(lambda: rule.holds(candidate))
    if isinstance(outcome, errors.CaughtException):
        return f"{rule.name} ({outcome})"
    return "" if outcome else rule.name


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
        metrics = (
            {**raw, **{f"{CLIPPED_PREFIX}{name}": value for name, value in effective.items()}} if self._clip else raw
        )
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


LEVEL_METRIC = "level"  # of the breakdown: how many evaluators a candidate passed


@dataclass(frozen=True, slots=True)
class CascadeStage:
    """An evaluator, and the least score that lets a candidate go on to the next."""

    evaluator: Evaluator
    threshold: float = -math.inf


class CascadeEvaluator:
    """Scores step by step. The score is that of the last step reached; metrics of all steps are together.

    Thresholds may be parameters: make the steps anew when they change.
    """

    def __init__(self, stages: Sequence[CascadeStage]) -> None:
        if not stages:
            raise errors.SetupError("A cascade needs a step at least.")
        self._stages = tuple(stages)
        self.is_concurrency_safe = all(is_concurrency_safe(stage.evaluator) for stage in stages)

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        metrics: dict[str, float] = {}
        total_cost = evaluation.ZERO_COST
        for level, stage in enumerate(self._stages, 1):
            result = stage.evaluator.score(candidate)
            metrics.update(result.metrics)
            total_cost += result.cost
            is_last = level == len(self._stages)
            if result.score is None or is_last or result.score < stage.threshold:
                has_passed = is_last and result.score is not None and result.score >= stage.threshold
                metrics[LEVEL_METRIC] = float(level if has_passed else level - 1)
                return replace(result, metrics=metrics, cost=total_cost)
        raise AssertionError("the last step returns")

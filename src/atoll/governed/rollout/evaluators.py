"""Evaluators: the interface, and evaluation by functions, rules, weighted features and cascades."""

import math
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from threading import Event
from typing import Any, Protocol, runtime_checkable

from atoll import errors, evaluation
from atoll.candidate import Candidate
from atoll.evaluation import Evaluation
from atoll.governed.errors import Cancelled, check_cancelled


class Evaluator(Protocol):
    """Scores candidates.

    Called from one thread unless it is `ConcurrencySafe`. Returns a failed evaluation for a bad candidate and never
    raises for it. Higher scores are better. The breakdown is in the evaluation's `metrics`.
    """

    def score(self, candidate: Candidate) -> Evaluation: ...


@runtime_checkable
class ConcurrencySafe(Protocol):
    """Marks an evaluator that several threads may call at once."""

    is_concurrency_safe: bool


def is_concurrency_safe(evaluator: Evaluator) -> bool:
    return isinstance(evaluator, ConcurrencySafe) and evaluator.is_concurrency_safe


def score_all(evaluator: Evaluator, candidates: Sequence[Candidate], *, workers: int = 1) -> Sequence[Evaluation]:
    """Scores candidates in order; in parallel only if the evaluator is `ConcurrencySafe`."""
    if workers > 1 and len(candidates) > 1 and is_concurrency_safe(evaluator):
        with ThreadPoolExecutor(min(workers, len(candidates))) as pool:
            return list(pool.map(evaluator.score, candidates))
    return [evaluator.score(candidate) for candidate in candidates]


class FuncEvaluator:
    """Scores with a function that returns a number, a number and a breakdown, or an `Evaluation`.

    An exception of the function becomes the failure of its candidate.

    Args:
        fn: The function.
        stop: Checked before each call.
        is_concurrency_safe: Several threads may call the function at once.
    """

    def __init__(
        self, fn: Callable[[Candidate], Any], *, stop: Event | None = None, is_concurrency_safe: bool = False
    ) -> None:
        if not callable(fn):
            raise errors.SetupError(f"FuncEvaluator needs a function, not {fn!r}.")
        self._fn, self._stop, self.is_concurrency_safe = fn, stop, is_concurrency_safe

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        """Returns the evaluation of the function.

        Raises:
            Cancelled: The stop event is set.
        """
        check_cancelled(self._stop)
        result = errors.capture(lambda: self._fn(candidate), reraise=(Cancelled, errors.SetupError))
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
    """Named constraint; `holds` is a pure function of the candidate."""

    name: str
    holds: Callable[[Candidate], bool]


class RuleEvaluator:
    """Fails candidates that break a rule and lists all broken rules; scores the others.

    Args:
        rules: All are checked, in order. A rule that raises counts as broken.
        evaluator: Scores candidates that break no rule; None: they score 1.
    """

    def __init__(self, rules: Sequence[Rule], evaluator: Evaluator | None = None) -> None:
        if not rules:
            raise errors.SetupError("RuleEvaluator needs at least one rule.")
        self._rules, self._evaluator = tuple(rules), evaluator
        self.is_concurrency_safe = evaluator is None or is_concurrency_safe(evaluator)

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        violations = [violation for rule in self._rules if (violation := _describe_violation(rule, candidate))]
        if violations:
            return evaluation.failed(f"broken rules: {'; '.join(violations)}", feedback="\n".join(violations))
        result = self._evaluator.score(candidate) if self._evaluator else evaluation.Evaluation(1.0)
        return replace(result, metrics={**result.metrics, "num_rules": float(len(self._rules))})


def _describe_violation(rule: Rule, candidate: Candidate) -> str:
    outcome = errors.capture(lambda: rule.holds(candidate))
    if isinstance(outcome, errors.CaughtException):
        return f"{rule.name} ({outcome})"
    return "" if outcome else rule.name


type Feature = Callable[[Candidate], float]

CLIPPED_PREFIX = "clipped:"  # prefix of clipped features in the breakdown


class ParameterReader(Protocol):
    """Reads parameters."""

    def get(self, key: str, /) -> tuple[Any, int]: ...


@dataclass(frozen=True, slots=True)
class ParameterWeight:
    """Weight that is read from a parameter at every score."""

    store: ParameterReader
    key: str

    def read(self) -> float:
        """Returns the weight.

        Raises:
            NotFound: The parameter does not exist.
            SetupError: The parameter is not a finite number.
        """
        value = self.store.get(self.key)[0]
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise errors.SetupError(f"Weight {self.key} is {value!r:.80}. Set it to a finite number.")
        return float(value)


class WeightedEvaluator:
    """Scores the weighted sum of features. The breakdown has the unweighted features.

    Args:
        features: Pure functions of the candidate, by name.
        weights: One per feature; negative if less is better.
        clip: Clip every feature to [0, 1] before the sum. The clipped values are added to the breakdown as
            `clipped:NAME`.

    Raises:
        SetupError: Features and weights do not match; the message lists all problems.
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
            raise errors.SetupError(f"The weighted evaluator is invalid: {'; '.join(problems)}.")
        self._features, self._weights, self._clip = dict(pairs), dict(weights), clip

    def features(self) -> Sequence[str]:
        """Returns the names of the features, sorted."""
        return sorted(self._features)

    def weights(self) -> Mapping[str, float]:
        """Returns a copy of the current weights."""
        return {
            name: weight.read() if isinstance(weight, ParameterWeight) else float(weight)
            for name, weight in self._weights.items()
        }

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        """Returns the weighted sum. A feature that is not finite is a failure."""
        raw = {name: float(feature(candidate)) for name, feature in self._features.items()}
        for name, value in raw.items():
            if not math.isfinite(value):
                return evaluation.failed(f"feature {name} is {value}, not a finite number")
        effective = {name: min(max(value, 0.0), 1.0) for name, value in raw.items()} if self._clip else raw
        weights = self.weights()
        metrics = (
            {**raw, **{f"{CLIPPED_PREFIX}{name}": value for name, value in effective.items()}} if self._clip else raw
        )
        return evaluation.Evaluation(math.fsum(effective[name] * weights[name] for name in effective), metrics=metrics)


def _find_problems(names: Sequence[str], weights: Mapping[str, float | ParameterWeight]) -> Sequence[str]:
    problems = [] if names else ["no features are given"]
    problems += [f"feature {name} is given twice" for name in sorted({n for n in names if names.count(n) > 1})]
    problems += [f"feature {name} has no weight" for name in sorted(set(names) - set(weights))]
    problems += [f"weight {name} has no feature" for name in sorted(set(weights) - set(names))]
    for name, weight in sorted(weights.items()):
        if not isinstance(weight, ParameterWeight) and not math.isfinite(weight):
            problems.append(f"weight {name} is {weight}")
    return problems


LEVEL_METRIC = "level"  # metric: number of stages that a candidate passed


@dataclass(frozen=True, slots=True)
class CascadeStage:
    """Evaluator and the minimum score to reach the next stage."""

    evaluator: Evaluator
    threshold: float = -math.inf


class CascadeEvaluator:
    """Scores in stages. The score is that of the last stage reached; metrics of all stages are merged.

    Thresholds may be parameters; make a new cascade when they change.
    """

    def __init__(self, stages: Sequence[CascadeStage]) -> None:
        if not stages:
            raise errors.SetupError("CascadeEvaluator needs at least one stage.")
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
        raise AssertionError("the last stage returns")

"""Hard constraints before any score."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from atoll import errors, evaluation
from atoll.candidate import Candidate
from atoll.governed.evaluators.evaluator import Evaluator, is_concurrency_safe


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

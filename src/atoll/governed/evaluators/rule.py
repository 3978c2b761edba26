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

    def __init__(self, rules: Sequence[Rule], then: Evaluator | None = None) -> None:
        if not rules:
            raise errors.SetupError("A rule evaluator needs a rule at least.")
        self._rules, self._then = tuple(rules), then
        self.is_concurrency_safe = then is None or is_concurrency_safe(then)

    def score(self, candidate: Candidate) -> evaluation.Evaluation:
        broken = [said for rule in self._rules if (said := _broken(rule, candidate))]
        if broken:
            return evaluation.failed(f"broke {'; '.join(broken)}", feedback="\n".join(broken))
        found = self._then.score(candidate) if self._then else evaluation.Evaluation(1.0)
        return replace(found, metrics={**found.metrics, "num_rules": float(len(self._rules))})


def _broken(rule: Rule, candidate: Candidate) -> str:
    held = errors.attempt(lambda: rule.holds(candidate))
    if isinstance(held, errors.Caught):
        return f"{rule.name} ({held})"
    return "" if held else rule.name

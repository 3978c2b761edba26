"""Judges plans: scored, verified and explained by their problem, measured as worldlines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll import evaluation, function, system
from atoll.evaluation import Evaluation
from atoll.mind import fitness, kinds, review
from atoll.mind.tasks.problem import Problem, Verdict
from atoll.mind.worldline import BASE, Worldline

SOLVED, SCORE = "solved", "task_score"  # metrics beside the five
_LONG_PLAN = 4000  # characters: what a plan of this length costs is 1


def content_of(problem: Problem, plan: str) -> str:
    """Returns the text of a candidate: which problem, then the plan."""
    return f"{problem.id}\n{plan}"


def plan_of(content: str) -> str:
    return content.partition("\n")[2]


def is_base(fn: function.Function) -> bool:
    """Says whether this is the world before anybody planned: it founds every island and is nobody's parent."""
    return str(fn.skeleton()) == BASE


@dataclass(frozen=True, slots=True)
class PlanJudge:
    """Finds out how good a plan is; its score is the fitness by the weights that all islands share.

    Attributes:
        problems: By their ids.
        weights: By which islands are compared with each other.
        reviewer: Says what it thinks of a plan that was judged.
    """

    problems: Mapping[str, Problem]
    weights: fitness.Weights = fitness.BALANCED
    reviewer: review.Reviewer = review.by_verdict

    def __call__(self, skeleton: function.Skeleton[..., Any], /) -> Evaluation:
        content = str(skeleton)
        if content == BASE:
            return Evaluation(0.0, metrics={SOLVED: 0.0}, feedback="Nothing was planned yet.")
        problem = self.problems.get(content.partition("\n")[0])
        if problem is None:
            return evaluation.failed(f"There is no problem {content.partition('\n')[0]!r:.60}.")
        plan = plan_of(content)
        verdict = problem.judge(plan)
        metrics = self._metrics(problem, plan, verdict)
        extra = {SOLVED: float(verdict.is_solved), SCORE: verdict.score}
        return Evaluation(self.weights.fitness(metrics), metrics={**metrics, **extra}, feedback=verdict.feedback())

    def _metrics(self, problem: Problem, plan: str, verdict: Verdict) -> dict[str, float]:
        trace = problem.trace(plan)
        divergence = kinds.TextKind().divergence(
            Worldline("this", decision_trace=trace), Worldline(BASE, decision_trace=tuple(problem.moves))
        )
        acted = min(1.0, len(trace) / (2 * max(1, len(problem.moves))))
        return fitness.measured(
            contradiction=min(1.0, verdict.contradiction),
            divergence=divergence,
            progress=verdict.progress,
            review=self.reviewer(problem, plan, verdict),
            cost=(acted + min(1.0, len(plan) / _LONG_PLAN)) / 2,
        )


def caption(fn: function.Function) -> system.Caption:
    """Tells of a plan, among the plans of its problem: how it scores there, and the first thing that is wrong."""
    found = fn.evaluation
    if found is None or is_base(fn):
        return system.Caption("", "nothing is planned yet")
    problem, said = str(fn.skeleton()).partition("\n")[0], found.feedback.partition("\n")[0].removeprefix("- ")
    return system.Caption(problem, f"{problem}: score {found.metrics.get(SCORE, 0.0):g}; {said}")


def is_solved(found: Evaluation | None) -> bool:
    return found is not None and found.metrics.get(SOLVED, 0.0) > 0


def best_of(fns: Sequence[function.Function]) -> function.Function | None:
    """Returns the one with the best score on the common scale, the earlier one of equals."""
    scored = [fn for fn in fns if fn.evaluation is not None and fn.evaluation.score is not None]
    return max(scored, key=score_of, default=None)


def score_of(fn: function.Function) -> float:
    """Returns the score on the scale that all islands share."""
    found = fn.evaluation
    return -float("inf") if found is None or found.score is None else found.score

"""Judges plans: scored, verified and explained by their problem, measured as worldlines."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll import evaluation, function, system
from atoll.evaluation import Evaluation
from atoll.mind import backends, fitness, review
from atoll.mind.tasks.problem import PlanEvaluation, Problem
from atoll.mind.worldline import BASE, Worldline

SOLVED, SCORE = "solved", "task_score"  # metrics beside the five
_MAX_PLAN_CHARS = 4000  # characters: what a plan of this length costs is 1


def make_content(problem: Problem, plan: str) -> str:
    """Returns the text of a candidate: which problem, then the plan."""
    return f"{problem.id}\n{plan}"


def get_plan(content: str) -> str:
    return content.partition("\n")[2]


def is_base(fn: function.Function) -> bool:
    """Says whether this is the world before anybody planned: it founds every island and is nobody's parent."""
    return str(fn.skeleton()) == BASE


@dataclass(frozen=True, slots=True)
class PlanEvaluator:
    """Finds out how good a plan is; its score is the fitness by the weights that all islands share.

    Attributes:
        problems: By their ids.
        weights: By which islands are compared with each other.
        reviewer: Says what it thinks of a plan that was judged.
    """

    problems: Mapping[str, Problem]
    weights: fitness.Weights = fitness.BALANCED
    reviewer: review.Reviewer = review.review_by_evaluation

    def __call__(self, skeleton: function.Skeleton[..., Any], /) -> Evaluation:
        content = str(skeleton)
        if content == BASE:
            return Evaluation(0.0, metrics={SOLVED: 0.0}, feedback="Nothing was planned yet.")
        problem = self.problems.get(content.partition("\n")[0])
        if problem is None:
            return evaluation.failed(f"There is no problem {content.partition('\n')[0]!r:.60}.")
        plan = get_plan(content)
        plan_evaluation = problem.evaluate(plan)
        metrics = self._compute_metrics(problem, plan, plan_evaluation)
        extra = {SOLVED: float(plan_evaluation.is_solved), SCORE: plan_evaluation.score}
        return Evaluation(
            self.weights.compute_fitness(metrics),
            metrics={**metrics, **extra},
            feedback=plan_evaluation.format_feedback(),
        )

    def _compute_metrics(self, problem: Problem, plan: str, plan_evaluation: PlanEvaluation) -> dict[str, float]:
        trace = problem.parse_trace(plan)
        divergence = backends.TextBackend().compute_divergence(
            Worldline("this", decision_trace=trace), Worldline(BASE, decision_trace=tuple(problem.moves))
        )
        length_cost = min(1.0, len(trace) / (2 * max(1, len(problem.moves))))
        return fitness.make_metrics(
            contradiction=min(1.0, plan_evaluation.contradiction),
            divergence=divergence,
            progress=plan_evaluation.progress,
            review=self.reviewer(problem, plan, plan_evaluation),
            cost=(length_cost + min(1.0, len(plan) / _MAX_PLAN_CHARS)) / 2,
        )


def summarize_candidate(fn: function.Function) -> system.CandidateSummary:
    """Tells of a plan, among the plans of its problem: how it scores there, and the first thing that is wrong."""
    result = fn.evaluation
    if result is None or is_base(fn):
        return system.CandidateSummary("", "nothing is planned yet")
    problem, feedback = str(fn.skeleton()).partition("\n")[0], result.feedback.partition("\n")[0].removeprefix("- ")
    return system.CandidateSummary(problem, f"{problem}: score {result.metrics.get(SCORE, 0.0):g}; {feedback}")


def is_solved(result: Evaluation | None) -> bool:
    return result is not None and result.metrics.get(SOLVED, 0.0) > 0


def find_best(fns: Sequence[function.Function]) -> function.Function | None:
    """Returns the one with the best score on the common scale, the earlier one of equals."""
    scored = [fn for fn in fns if fn.evaluation is not None and fn.evaluation.score is not None]
    return max(scored, key=get_score, default=None)


def get_score(fn: function.Function) -> float:
    """Returns the score on the scale that all islands share."""
    result = fn.evaluation
    return -float("inf") if result is None or result.score is None else result.score

"""Evaluates plans with their problem: score, verification, feedback and the metrics of a worldline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll import evaluation, function, system
from atoll.evaluation import Evaluation
from atoll.mind import backends, fitness, review
from atoll.mind.tasks.problem import PlanEvaluation, Problem
from atoll.mind.worldline import BASE, Worldline

SOLVED, SCORE = "solved", "task_score"  # metrics besides the five weighted ones
_MAX_PLAN_CHARS = 4000  # a plan of this many characters has the length cost 1


def make_content(problem: Problem, plan: str) -> str:
    """Returns the text of a candidate: the problem id, then the plan."""
    return f"{problem.id}\n{plan}"


def get_plan(content: str) -> str:
    return content.partition("\n")[2]


def is_base(fn: function.Function) -> bool:
    """Returns whether this is the base, the world before any plan. It starts every island and is never a parent."""
    return str(fn.skeleton()) == BASE


@dataclass(frozen=True, slots=True)
class PlanEvaluator:
    """Evaluates plans. The score is the fitness by the weights that all islands share.

    Attributes:
        problems: By their ids.
        weights: Weights that compare islands.
        reviewer: Returns the review score of an evaluated plan.
    """

    problems: Mapping[str, Problem]
    weights: fitness.Weights = fitness.BALANCED
    reviewer: review.Reviewer = review.review_by_evaluation

    def __call__(self, skeleton: function.Skeleton[..., Any], /) -> Evaluation:
        content = str(skeleton)
        if content == BASE:
            return Evaluation(0.0, metrics={SOLVED: 0.0}, feedback="No plan yet.")
        problem = self.problems.get(content.partition("\n")[0])
        if problem is None:
            return evaluation.failed(f"Problem {content.partition('\n')[0]!r:.60} not found.")
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
    """Summarizes a plan: its problem, its score and the first error."""
    result = fn.evaluation
    if result is None or is_base(fn):
        return system.CandidateSummary("", "no plan yet")
    problem, feedback = str(fn.skeleton()).partition("\n")[0], result.feedback.partition("\n")[0].removeprefix("- ")
    return system.CandidateSummary(problem, f"{problem}: score {result.metrics.get(SCORE, 0.0):g}; {feedback}")


def is_solved(result: Evaluation | None) -> bool:
    return result is not None and result.metrics.get(SOLVED, 0.0) > 0


def find_best(fns: Sequence[function.Function]) -> function.Function | None:
    """Returns the function with the best common score; of equal ones, the earlier."""
    scored = [fn for fn in fns if fn.evaluation is not None and fn.evaluation.score is not None]
    return max(scored, key=get_score, default=None)


def get_score(fn: function.Function) -> float:
    """Returns the common score."""
    result = fn.evaluation
    return -float("inf") if result is None or result.score is None else result.score

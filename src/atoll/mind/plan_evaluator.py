"""Evaluates plans with their problem: score, verification, feedback and the metrics of a worldline."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from atoll import evaluation, function, system
from atoll.evaluation import Evaluation
from atoll.mind import fitness, worldline
from atoll.mind.actions import Action
from atoll.mind.tasks.problem import PlanError, PlanEvaluation, Problem
from atoll.mind.worldline import BASE

SOLVED, SCORE = "solved", "task_score"  # metrics besides the five weighted ones
_MAX_REMEMBERED = 5000  # plans whose errors are remembered
_HALF_DIFFERENT_LINES = 40  # changed lines at which a repository counts as half different
_HALF_COST_TOKENS = 8000  # tokens at which a plan has the cost 0.5
_MAX_PLAN_CHARS = 4000  # a plan of this many characters has the length cost 1


type ErrorKey = tuple[str, str, str]  # kind, goal and other goal of an error


class PlanDigest(NamedTuple):
    """Errors and decisions of a plan, to compare it with another."""

    errors: frozenset[ErrorKey]
    trace: tuple[Action, ...]


class PlanText(function.Text):
    """Text of a candidate, with the measurements of its making for the evaluator.

    Attributes:
        parent_plan: Plan that the author changed; None for a plan from nothing.
        tokens: Tokens of the LLM calls that made it; None without an LLM.
        review_score: Verdict of an independent reviewer: approved 1, rejected -1, none 0.
    """

    __slots__ = ("parent_plan", "review_score", "tokens")
    parent_plan: str | None
    tokens: int | None
    review_score: float

    def __new__(
        cls, text: str, *, parent_plan: str | None = None, tokens: int | None = None, review_score: float = 0.0
    ) -> "PlanText":
        content = super().__new__(cls, text)
        content.parent_plan, content.tokens, content.review_score = parent_plan, tokens, review_score
        return content


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
        terms: Source of the terms of the fitness.
    """

    problems: Mapping[str, Problem]
    weights: fitness.Weights = fitness.BALANCED
    terms: fitness.TermSource = "measured"
    _digests: dict[tuple[str, str], PlanDigest] = field(default_factory=dict)  # of recent plans

    def __call__(self, skeleton: function.Skeleton[..., Any], /) -> Evaluation:
        content = str(skeleton)
        if content == BASE:
            return Evaluation(0.0, metrics={SOLVED: 0.0}, feedback="No plan yet.")
        problem = self.problems.get(content.partition("\n")[0])
        if problem is None:
            return evaluation.failed(f"Problem {content.partition('\n')[0]!r:.60} not found.")
        text = skeleton if isinstance(skeleton, PlanText) else PlanText(content)
        plan_evaluation = problem.evaluate(get_plan(content))
        if self.terms == "simple":
            metrics, task_metrics = compute_simple_metrics(problem, get_plan(content), plan_evaluation), {}
        else:
            digest = self._remember(problem, get_plan(content), plan_evaluation)
            parent_digest = None if text.parent_plan is None else self._find_digest(problem, text.parent_plan)
            metrics = compute_metrics(problem, text, plan_evaluation, digest, parent_digest)
            task_metrics = dict(plan_evaluation.metrics)
        extra = {SOLVED: float(plan_evaluation.is_solved), SCORE: plan_evaluation.score}
        return Evaluation(
            self.weights.compute_fitness(metrics),
            metrics={**metrics, **task_metrics, **extra},
            feedback=plan_evaluation.format_feedback(),
        )

    def _find_digest(self, problem: Problem, plan: str) -> PlanDigest:
        digest = self._digests.get((problem.id, plan))
        return digest or self._remember(problem, plan, problem.evaluate(plan))

    def _remember(self, problem: Problem, plan: str, plan_evaluation: PlanEvaluation) -> PlanDigest:
        if len(self._digests) >= _MAX_REMEMBERED:
            self._digests.clear()
        errors = frozenset(_get_error_key(item) for item in plan_evaluation.errors)
        digest = self._digests[problem.id, plan] = PlanDigest(errors, problem.parse_trace(plan))
        return digest


def compute_metrics(
    problem: Problem,
    text: PlanText,
    plan_evaluation: PlanEvaluation,
    digest: PlanDigest,
    parent_digest: PlanDigest | None,
) -> dict[str, float]:
    """Returns the five terms of the fitness. Each one has its own source.

    Consistency: errors that the parent plan did not have. Divergence: distance of the decisions from those of the
    parent, or changed lines of a repository. Progress: the evaluator. Review: an independent reviewer. Cost: tokens, or
    the length of the plan without an LLM.
    """
    plan, trace, parent_trace = get_plan(text), digest.trace, tuple[Action, ...]()
    contradiction = plan_evaluation.contradiction
    if parent_digest is not None:
        parent_trace = parent_digest.trace
        contradiction = max(contradiction, len(digest.errors - parent_digest.errors) / max(1, len(trace)))
    num_lines = plan_evaluation.metrics.get("changed_lines")
    divergence = (
        worldline.compute_distance(worldline.format_trace(trace), worldline.format_trace(parent_trace))
        if num_lines is None
        else num_lines / (num_lines + _HALF_DIFFERENT_LINES)
    )
    return fitness.make_metrics(
        contradiction=min(1.0, contradiction),
        divergence=divergence,
        progress=plan_evaluation.progress,
        review=text.review_score,
        cost=_compute_length_cost(problem, plan, trace)
        if text.tokens is None
        else text.tokens / (text.tokens + _HALF_COST_TOKENS),
    )


def compute_simple_metrics(problem: Problem, plan: str, plan_evaluation: PlanEvaluation) -> dict[str, float]:
    """Returns the five terms of version 0.1, from the plan and its evaluation only.

    Runs of version 0.1 resume with them.
    """
    trace = problem.parse_trace(plan)
    is_readable = all(plan_error.kind != "format" for plan_error in plan_evaluation.errors)
    return fitness.make_metrics(
        contradiction=min(1.0, plan_evaluation.contradiction),
        divergence=worldline.compute_distance(
            worldline.format_trace(trace), worldline.format_trace(tuple(problem.moves))
        ),
        progress=plan_evaluation.progress,
        review=1.0 if plan_evaluation.is_solved else 0.0 if is_readable else -1.0,
        cost=_compute_length_cost(problem, plan, trace),
    )


def _compute_length_cost(problem: Problem, plan: str, trace: Sequence[Action]) -> float:
    length_cost = min(1.0, len(trace) / (2 * max(1, len(problem.moves))))
    return (length_cost + min(1.0, len(plan) / _MAX_PLAN_CHARS)) / 2


def _get_error_key(plan_error: PlanError) -> ErrorKey:
    return plan_error.kind, plan_error.goal, plan_error.other_goal


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

"""Functions that were judged already, without a judge."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from atoll import evaluation, function
from atoll.candidate import EMPTY, Candidate
from atoll.evaluation import Evaluation


def make_evaluated_function(
    scores: float | Sequence[float],
    content: str = "",
    *,
    id: str = "1.0",
    parents: Sequence[str] = (),
    metrics: Mapping[str, float] = EMPTY,
) -> function.Function:
    """Returns a function whose score and rank are the mean of `scores`, with a text for its content."""
    values = (float(scores),) if isinstance(scores, int | float) else tuple(scores)
    result = Evaluation(fmean(values), values, metrics)
    iteration_text = id.partition(".")[0]
    candidate = Candidate(id, content or f"content of {id}", tuple(parents), iteration=int(iteration_text) if iteration_text.isdigit() else 0)
    return _make_function(candidate.content).with_evaluation(candidate, result, result.score)


def make_failed_function(failure: str = "it did not run", content: str = "", *, id: str = "1.0") -> function.Function:
    """Returns a function that was judged and failed."""
    candidate = Candidate(id, content or f"content of {id}")
    return _make_function(candidate.content).with_evaluation(candidate, evaluation.failed(failure))


def _make_function(content: str) -> function.Function:
    return function.DefaultFunction(function.DefaultFunctionProps(function.Text(content), candidate_evaluator=_raise_on_evaluation))


def _raise_on_evaluation(skeleton: object) -> Evaluation:
    raise AssertionError("this function is settled already: nobody judges it")

"""Functions that were judged already, without a judge."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from atoll import evaluation, function
from atoll.candidate import NOTHING, Candidate
from atoll.evaluation import Evaluation


def settled(
    scores: float | Sequence[float],
    content: str = "",
    *,
    id: str = "1.0",
    parents: Sequence[str] = (),
    metrics: Mapping[str, float] = NOTHING,
) -> function.Function:
    """Returns a function whose score and rank are the mean of `scores`, with a text for its content."""
    each = (float(scores),) if isinstance(scores, int | float) else tuple(scores)
    found = Evaluation(fmean(each), each, metrics)
    step = id.partition(".")[0]
    born = Candidate(id, content or f"content of {id}", tuple(parents), step=int(step) if step.isdigit() else 0)
    return _draft(born.content).settle(born, found, found.score)


def unscored(failure: str = "it did not run", content: str = "", *, id: str = "1.0") -> function.Function:
    """Returns a function that was judged and failed."""
    born = Candidate(id, content or f"content of {id}")
    return _draft(born.content).settle(born, evaluation.failed(failure))


def _draft(content: str) -> function.Function:
    return function.DefaultFunction(function.DefaultFunctionProps(function.Text(content), judge=_never))


def _never(skeleton: object) -> Evaluation:
    raise AssertionError("this function is settled already: nobody judges it")

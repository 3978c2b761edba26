"""The contract of every evaluator."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, runtime_checkable

from atoll.candidate import Candidate
from atoll.evaluation import Evaluation


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

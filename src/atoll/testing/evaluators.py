"""Test suite for candidate evaluators."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from atoll import evaluation, function
from atoll.evaluation import ZERO_COST, Evaluation
from atoll.testing import assertions

type AnySkeleton = function.Skeleton[..., Any]

_BAD_SOURCES = (
    "def f(*args): raise RuntimeError('a bad one')",
    "def f(*args): return float('nan')",
    "def f(*args): return float('-inf')",
    "def f(*args): return None",
    "def f(*args): return 'a text'",
    "def f(*args): return 10 ** 400",
    "def f(*args): return f(*args)",
    "def f(*args): exit(1)",
    "def f(*args",
    "no function = here",
    "",
)


class CandidateEvaluatorSuite(ABC):
    """Tests for an evaluator. Subclass it and implement `make` and `good`."""

    @abstractmethod
    def make(self) -> function.CandidateEvaluator:
        """Returns the evaluator."""

    @abstractmethod
    def good(self) -> AnySkeleton:
        """Returns a candidate that gets a score."""

    def bad(self) -> Sequence[AnySkeleton]:
        """Returns candidates that fail; by default functions that raise, return no number or do not parse."""
        return [function.PyAstSkeleton(source) for source in _BAD_SOURCES]

    def test_good_candidate_gets_score(self) -> None:
        """The score is finite, and the failure is None."""
        result = self.make()(self.good())
        assert result.failure is None
        assert isinstance(result.score, float)
        _check_evaluation(result)

    def test_bad_candidate_gets_failure(self) -> None:
        """The evaluation has a failure instead of a score; the evaluator does not raise."""
        evaluator = self.make()
        for skeleton in self.bad():
            result = evaluator(skeleton)
            assert result.score is None, f"{skeleton} has the score {result.score}"
            assert result.failure is not None
            assert result.failure.strip(), f"{skeleton} has an empty failure"
            _check_evaluation(result)

    def test_bad_candidates_do_not_affect_the_next(self) -> None:
        """The same candidate gets the same evaluation after bad ones."""
        evaluator = self.make()
        first_result = evaluator(self.good())
        for skeleton in self.bad():
            evaluator(skeleton)
        assert _drop_cost(evaluator(self.good())) == _drop_cost(first_result)

    def test_evaluator_is_thread_safe(self) -> None:
        """All workers share one evaluator; results do not mix."""
        evaluator = self.make()
        expected = _drop_cost(evaluator(self.good()))
        assert assertions.run_concurrently(lambda _: _drop_cost(evaluator(self.good())), 4) == [expected] * 4


def _check_evaluation(result: Evaluation) -> None:
    """Checks the invariants of an evaluation, and that it can be stored in a journal."""
    assert (result.failure is None) == (result.score is not None)
    assert all(math.isfinite(value) for value in (result.score or 0.0, *result.scores, *result.metrics.values()))
    assert evaluation.from_data(json.loads(json.dumps(evaluation.to_data(result), allow_nan=False))) == result


def _drop_cost(result: Evaluation) -> Evaluation:
    return replace(result, cost=ZERO_COST)

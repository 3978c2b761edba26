"""What every judge promises."""

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from atoll import evaluation, function
from atoll.evaluation import FREE, Evaluation
from atoll.testing import claims

type AnySkeleton = function.Skeleton[..., Any]

_BAD = (
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


class JudgeSuite(ABC):
    """Subclass it, say how to make a judge and what a good draft is, and every test runs on yours."""

    @abstractmethod
    def make(self) -> function.Judge:
        """Returns the judge."""

    @abstractmethod
    def good(self) -> AnySkeleton:
        """Returns a draft that it gives a score."""

    def bad(self) -> Sequence[AnySkeleton]:
        """Returns drafts that it gives no score; Python functions that raise, return no number or do not parse."""
        return [function.PyAstSkeleton(source) for source in _BAD]

    def test_a_good_draft_gets_a_score(self) -> None:
        """Its score is a finite number and there is no failure."""
        found = self.make()(self.good())
        assert found.failure is None
        assert isinstance(found.score, float)
        _check(found)

    def test_a_bad_draft_gets_a_failure_and_never_raises(self) -> None:
        """There is a reason instead of a score: a bad candidate is not an exception."""
        judge = self.make()
        for skeleton in self.bad():
            found = judge(skeleton)
            assert found.score is None, f"{skeleton} has the score {found.score}"
            assert found.failure is not None
            assert found.failure.strip(), f"no reason for {skeleton}"
            _check(found)

    def test_a_bad_draft_spoils_nothing_for_the_next(self) -> None:
        """The judge is as good after bad drafts as before."""
        judge = self.make()
        before = judge(self.good())
        for skeleton in self.bad():
            judge(skeleton)
        assert _untimed(judge(self.good())) == _untimed(before)

    def test_it_judges_in_several_threads_at_once(self) -> None:
        """All workers share one judge, and each gets what it would get alone."""
        judge = self.make()
        alone = _untimed(judge(self.good()))
        assert claims.at_once(lambda _: _untimed(judge(self.good())), 4) == [alone] * 4


def _check(found: Evaluation) -> None:
    """Demands the invariants of an evaluation, and that the journal can hold it."""
    assert (found.failure is None) == (found.score is not None)
    assert all(math.isfinite(each) for each in (found.score or 0.0, *found.scores, *found.metrics.values()))
    assert evaluation.from_data(json.loads(json.dumps(evaluation.to_data(found), allow_nan=False))) == found


def _untimed(found: Evaluation) -> Evaluation:
    return replace(found, cost=FREE)

"""Several learners combined."""

from collections.abc import Mapping
from random import Random

from atoll import evaluation, function
from atoll.candidate import JSON
from atoll.programs.learners import CombinedLearner


class FixedLearner:
    def __init__(self, **advice: JSON) -> None:
        self.advice, self.learned = advice, list[function.IterationResult]()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return self.advice

    def learn(self, result: function.IterationResult) -> None:
        self.learned.append(result)


def test_combined_learner_advises_and_learns_with_all():
    one, other = FixedLearner(a=1, b=1), FixedLearner(b=2)
    combined = CombinedLearner([one, other])
    result = function.IterationResult(1, 0, [], {}, [], None, evaluation.ZERO_COST)
    combined.learn(result)
    assert combined.advise(Random(0)) == {"a": 1, "b": 2}
    assert one.learned == other.learned == [result]

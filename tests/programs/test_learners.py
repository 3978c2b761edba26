"""Several learners as one."""

from collections.abc import Mapping
from random import Random

from atoll import evaluation, function
from atoll.candidate import JSON
from atoll.programs.learners import CombinedLearner


class Telling:
    def __init__(self, **advice: JSON) -> None:
        self.advice, self.learned = advice, list[function.IterationResult]()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return self.advice

    def learn(self, result: function.IterationResult) -> None:
        self.learned.append(result)


def test_all_advise_and_all_learn():
    one, other = Telling(a=1, b=1), Telling(b=2)
    together = CombinedLearner([one, other])
    outcome = function.IterationResult(1, 0, [], {}, [], None, evaluation.ZERO_COST)
    together.learn(outcome)
    assert together.advise(Random(0)) == {"a": 1, "b": 2}
    assert one.learned == other.learned == [outcome]

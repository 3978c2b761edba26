"""Several learners as one."""

from collections.abc import Mapping
from random import Random

from atoll import evaluation, function
from atoll.candidate import JSON
from atoll.programs.learners import Together


class Telling:
    def __init__(self, **advice: JSON) -> None:
        self.advice, self.learned = advice, list[function.Outcome]()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return self.advice

    def learn(self, outcome: function.Outcome) -> None:
        self.learned.append(outcome)


def test_all_advise_and_all_learn():
    one, other = Telling(a=1, b=1), Telling(b=2)
    together = Together([one, other])
    outcome = function.Outcome(1, 0, [], {}, [], None, evaluation.FREE)
    together.learn(outcome)
    assert together.advise(Random(0)) == {"a": 1, "b": 2}
    assert one.learned == other.learned == [outcome]

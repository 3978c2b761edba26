"""Several learners as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from atoll import function
from atoll.candidate import JSON


@dataclass(frozen=True, slots=True)
class Learners:
    """Advises what all of them advise, the later ones winning, and teaches each of them."""

    learners: Sequence[function.Learner]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {key: said for learner in self.learners for key, said in learner.advise(rng).items()}

    def learn(self, outcome: function.Outcome) -> None:
        for learner in self.learners:
            learner.learn(outcome)

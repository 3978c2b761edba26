"""Several learners as one."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from atoll import function
from atoll.candidate import JSON


@dataclass(frozen=True, slots=True)
class CombinedLearner:
    """Advises what all of them advise; of equal names the last one's counts."""

    learners: Sequence[function.Learner]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        advice: dict[str, JSON] = {}
        for learner in self.learners:
            advice |= learner.advise(rng)
        return advice

    def learn(self, result: function.IterationResult) -> None:
        for learner in self.learners:
            learner.learn(result)

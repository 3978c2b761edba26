"""Which of several models a step should ask: learners, so that a run can go on and be repeated with the same choices.

What they know comes from `learn` alone: a resume teaches them the applied steps again and asks no advice for them.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

from atoll import function
from atoll.candidate import JSON
from atoll.llm.ensemble import ADVICE, Ensemble, Member

type Route = Literal["weights", "bandit", "plateau"]

_LEAST_SHARE = 0.01  # of the dearest model's price: a model that is free must not be infinitely good


def make(route: Route, ensemble: Ensemble, *, plateau_steps: int = 20) -> function.Learner:
    """Returns the learner that chooses among the members.

    Args:
        route: `weights`: by their weights. `bandit`: by what each has improved per dollar. `plateau`: all but the
            last by their weights, and the last, the strong one, while nothing improves.
        ensemble: Whose members they are.
        plateau_steps: Steps without a new best that are a plateau.
    """
    match route:
        case "weights":
            return Weights(ensemble.members)
        case "bandit":
            return Bandit(ensemble.members)
        case "plateau":
            return Plateau(ensemble.members, plateau_steps)


class Weights:
    """Draws a model by the members' weights and learns nothing."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._names = [member.name for member in members]
        self._weights = [member.weight for member in members]

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {ADVICE: rng.choices(self._names, self._weights)[0]}

    def learn(self, outcome: function.Outcome) -> None:
        pass


class Plateau:
    """Asks the last model while the best has not improved for some steps, and the others otherwise."""

    def __init__(self, members: Sequence[Member], steps: int) -> None:
        self._strong, self._usual = members[-1].name, Weights(members[:-1] or members)
        self._most_steps, self._steps = steps, 0
        self._best = -math.inf

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {ADVICE: self._strong} if self._steps >= self._most_steps else self._usual.advise(rng)

    def learn(self, outcome: function.Outcome) -> None:
        parents = max((_score(fn) for fn in outcome.parents), default=-math.inf)
        found = _best_child(outcome)
        self._steps = 0 if found > max(self._best, parents) else self._steps + 1
        self._best = max(self._best, parents, found)


@dataclass(slots=True)
class _Arm:
    num_steps: int = 0
    gain: float = 0.0
    usd: float = 0.0


class Bandit:
    """Chooses by an upper bound on improvement per dollar: (mean + margin) / cost.

    The index is that of KUBE (Tran-Thanh et al., AAAI 2012).

    A step's gain is what its best child adds to its best parent, relative to both, so from 0 to 1 whatever the task's
    scores are like. The margin shrinks with the steps of a model and is scaled by the largest gain so far: gains are
    mostly far below 1, and a margin for [0, 1] would go on trying everything. Where no model has a price all cost
    the same.
    """

    def __init__(self, members: Sequence[Member]) -> None:
        self._arms = {member.name: _Arm() for member in members if member.weight > 0}
        self._largest = 0.0

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        # Outcomes come late, so several steps are issued before the first: among the untried it draws.
        untried = [name for name, arm in self._arms.items() if not arm.num_steps]
        if untried:
            return {ADVICE: rng.choice(untried)}
        bounds = self._bounds()
        best = max(bounds.values())
        return {ADVICE: rng.choice([name for name, bound in bounds.items() if bound == best])}

    def learn(self, outcome: function.Outcome) -> None:
        arm = self._arms.get(str(outcome.advice.get(ADVICE)))
        if arm is None:
            return
        parent, child = max((_score(fn) for fn in outcome.parents), default=-math.inf), _best_child(outcome)
        gain = 0.0
        if child > parent > -math.inf:
            gain = (child - parent) / (child - parent + abs(parent))
        arm.num_steps, arm.gain, arm.usd = arm.num_steps + 1, arm.gain + gain, arm.usd + outcome.spent.usd
        self._largest = max(self._largest, gain)

    def _bounds(self) -> Mapping[str, float]:
        total = sum(arm.num_steps for arm in self._arms.values())
        costs = {name: arm.usd / arm.num_steps for name, arm in self._arms.items()}
        dearest = max(costs.values()) or 1.0
        scale = self._largest or 1.0
        return {
            name: (arm.gain / arm.num_steps + scale * math.sqrt(2 * math.log(total) / arm.num_steps))
            / max(costs[name] / dearest, _LEAST_SHARE if any(costs.values()) else 1.0)
            for name, arm in self._arms.items()
        }


class Advisers:
    """Several learners as one; of two that advise the same key the later wins."""

    def __init__(self, *learners: function.Learner) -> None:
        self._learners = learners

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {key: value for learner in self._learners for key, value in learner.advise(rng).items()}

    def learn(self, outcome: function.Outcome) -> None:
        for learner in self._learners:
            learner.learn(outcome)


def _score(fn: function.Function) -> float:
    found = fn.evaluation
    return -math.inf if found is None or found.score is None else found.score


def _best_child(outcome: function.Outcome) -> float:
    return max((_score(fn) for fn, decision in outcome.children if decision.verdict == "accept"), default=-math.inf)

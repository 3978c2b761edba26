"""Several engines as one: which one makes the next child is learned from what each one's children gained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Literal

from atoll import errors, function
from atoll.candidate import JSON, NOTHING
from atoll.mutation.unfit import Unfit

type Engine = Literal["syntax", "refined", "tuner", "choices", "llm", "diff", "rewrite"]  # as `choosing` names them
type Weights = Mapping[Engine, float] | Mapping[str, float]
KEY = "engine"  # of advice, and of the note that every engine leaves with its children
_HOPE = 0.5  # gain that an engine is trusted with before it was tried, spread over `_TRUST` evaluations
_TRUST = 40.0
_SMALL_GAIN = 0.02  # of a child that is better than its parents and not the best of all


@dataclass(slots=True)
class Arm:
    """What an engine gained and what that took, of late."""

    gain: float = 0.0
    cost: float = 0.0
    steps: float = 0.0

    @property
    def rate(self) -> float:
        """Gain for each evaluation."""
        return (self.gain + _HOPE) / (self.cost + _TRUST)

    @property
    def cost_of_a_step(self) -> float:
        return (self.cost + 1.0) / (self.steps + 1.0)


class Bandit:
    """Advises an engine for each step: evaluations are shared out by what each engine gained for them, of late.

    A new best gains its share of all that was gained since the start, so that scores of any scale count alike. An
    engine whose steps take forty evaluations is asked a fortieth as often. Cost counts evaluations and calls of a
    model, never seconds: those would make two runs of one seed differ.

    Args:
        names: The engines.
        floor: The least share of evaluations that each gets: what fails now may do well later.
        memory: Evaluations after which half of what was learned is forgotten, so that a plateau changes the mix.
        call: What a call of a model costs, in evaluations.
        weights: What the gains of an engine count besides, 1 where nothing is said; 0: it gets no share at all.

    Raises:
        SetupError: The numbers cannot be.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        floor: float = 0.1,
        memory: float = 400.0,
        call: float = 5.0,
        weights: Weights = NOTHING,
    ) -> None:
        if not names or not 0 < floor * len(names) <= 1 or memory <= 0 or call < 0:
            raise errors.SetupError(
                f"A bandit of {len(names)} engines with floor {floor}, memory {memory}, call {call}: the floors of all "
                "must add up to at most 1, memory must be positive and call not negative."
            )
        said = {str(name): weight for name, weight in weights.items()}
        self._weights = {name: said.get(name, 1.0) for name in names}
        if not any(self._weights.values()) or min(self._weights.values()) < 0:
            raise errors.SetupError(
                f"The weights of the engines {', '.join(names)} are {list(self._weights.values())}: one at least must "
                "be above 0, and none below."
            )
        self._arms = {name: Arm() for name in names}
        self._floor, self._memory, self._call = floor, memory, call
        self._first: float | None = None
        self._best: float | None = None

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Names an engine."""
        shares = self.shares()
        steps = [share / self._arms[name].cost_of_a_step for name, share in shares.items()]
        return {KEY: rng.choices(list(shares), steps)[0]}

    def shares(self) -> Mapping[str, float]:
        """Returns the share of evaluations that each engine should get."""
        worths = {name: arm.rate * self._weights[name] for name, arm in self._arms.items()}
        total, free = sum(worths.values()), 1 - self._floor * sum(worth > 0 for worth in worths.values())
        return {name: self._floor + free * worth / total if worth else 0.0 for name, worth in worths.items()}

    def learn(self, outcome: function.Outcome) -> None:
        """Credits the engine that made the children, or that was asked and made none."""
        arm = self._arms.get(str(self._maker(outcome)))
        before = max((function.rank_of(fn) for fn in outcome.parents if fn.evaluation), default=None)
        if self._best is None:
            self._first = self._best = before
        gain = max((self._gain(fn, before) for fn, _ in outcome.children), default=0.0)
        if arm is None:
            return
        cost = max(1.0, self._trials(outcome, arm)) + self._call * outcome.spent.calls
        kept = 0.5 ** (cost / self._memory)
        for each in self._arms.values():
            each.gain, each.cost, each.steps = each.gain * kept, each.cost * kept, each.steps * kept
        arm.gain, arm.cost, arm.steps = arm.gain + gain, arm.cost + cost, arm.steps + 1

    def _maker(self, outcome: function.Outcome) -> JSON:
        for fn, _ in outcome.children:
            if fn.candidate and fn.candidate.meta.get(KEY) in self._arms:
                return fn.candidate.meta[KEY]
        return outcome.advice.get(KEY)

    def _trials(self, outcome: function.Outcome, arm: Arm) -> float:
        """Returns how many drafts a step judged; where it made no child to say so, as many as before."""
        told = [fn.candidate.meta.get("trials", 1) for fn, _ in outcome.children if fn.candidate]
        counts = [each for each in told if isinstance(each, int | float)]
        return float(sum(counts)) if counts else arm.cost_of_a_step

    def _gain(self, fn: function.Function, before: float | None) -> float:
        score = function.rank_of(fn) if fn.evaluation else None
        if score is None or before is None or self._best is None or self._first is None or score <= before:
            return 0.0
        if score <= self._best:
            return _SMALL_GAIN
        gained, self._best = score - self._best, score
        return gained / (score - self._first)


@dataclass(frozen=True, slots=True)
class Mixed:
    """Lets one of several engines propose: the one that the advice names, else one drawn evenly.

    One that can do nothing with its parents makes room for the others, in their order.

    Attributes:
        engines: By the name that each one notes with its children.
        learner: What advises it; hand it to the evolver too. None where there is nothing to choose.
    """

    engines: Mapping[str, function.Proposer]
    learner: Bandit | None = field(default=None, compare=False)

    @classmethod
    def of(cls, engines: Mapping[str, function.Proposer], weights: Weights = NOTHING) -> "Mixed":
        """Returns a mix with a bandit of its own."""
        return cls(engines, Bandit(list(engines), weights=weights) if len(engines) > 1 else None)

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        """Returns the children of the first engine that can make some.

        Raises:
            ValueError: The engine failed, or none could do anything.
        """
        asked = str(task.advice.get(KEY))
        first = asked if asked in self.engines else task.rng.choice(list(self.engines))
        failures: list[str] = []
        for name in (first, *(each for each in self.engines if each != first)):
            try:
                return self.engines[name].propose(task)
            except Unfit as error:
                failures.append(f"{name}: {error}")
        raise ValueError(" ".join(failures))

"""Several engines as one: which one makes the next child is learned from what each one's children gained."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from atoll import candidate, errors, function
from atoll.candidate import EMPTY, JSON
from atoll.mutation.applicability import NotApplicable
from atoll.mutation.tuner import Tuner

type MutatorName = Literal[
    "syntax", "refined", "tuner", "choices", "llm", "diff", "rewrite"
]  # as `choosing` names them
type MutatorWeights = Mapping[MutatorName, float] | Mapping[str, float]
ENGINE_KEY = "engine"  # of advice, and of the note that every engine leaves with its children
_PRIOR_GAIN = 0.5  # gain that an engine is trusted with before it was tried, spread over `_TRUST` evaluations
_PRIOR_COST = 40.0
_SMALL_GAIN = 0.02  # of a child that is better than its parents and not the best of all


@dataclass(slots=True)
class BanditArm:
    """What an engine gained and what that took, of late."""

    gain: float = 0.0
    cost: float = 0.0
    iterations: float = 0.0

    @property
    def rate(self) -> float:
        """Gain for each evaluation."""
        return (self.gain + _PRIOR_GAIN) / (self.cost + _PRIOR_COST)

    @property
    def cost_per_iteration(self) -> float:
        return (self.cost + 1.0) / (self.iterations + 1.0)


class MutatorBandit:
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
        min_share: float = 0.1,
        half_life: float = 400.0,
        call_cost: float = 5.0,
        weights: MutatorWeights = EMPTY,
    ) -> None:
        if not names or not 0 < min_share * len(names) <= 1 or half_life <= 0 or call_cost < 0:
            raise errors.SetupError(
                f"A bandit of {len(names)} engines with floor {min_share}, memory {half_life}, call {call_cost}: the floors of all "
                "must add up to at most 1, memory must be positive and call not negative."
            )
        given_weights = {str(name): weight for name, weight in weights.items()}
        self._weights = {name: given_weights.get(name, 1.0) for name in names}
        if not any(self._weights.values()) or min(self._weights.values()) < 0:
            raise errors.SetupError(
                f"The weights of the engines {', '.join(names)} are {list(self._weights.values())}: one at least must "
                "be above 0, and none below."
            )
        self._arms = {name: BanditArm() for name in names}
        self._min_share, self._half_life, self._call_cost = min_share, half_life, call_cost
        self._initial_score: float | None = None
        self._best_score: float | None = None

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Names an engine."""
        shares = self.compute_shares()
        iteration_weights = [share / self._arms[name].cost_per_iteration for name, share in shares.items()]
        return {ENGINE_KEY: rng.choices(list(shares), iteration_weights)[0]}

    def compute_shares(self) -> Mapping[str, float]:
        """Returns the share of evaluations that each engine should get."""
        weighted_rates = {name: arm.rate * self._weights[name] for name, arm in self._arms.items()}
        total, remaining_share = (
            sum(weighted_rates.values()),
            1 - self._min_share * sum(rate > 0 for rate in weighted_rates.values()),
        )
        return {
            name: self._min_share + remaining_share * rate / total if rate else 0.0
            for name, rate in weighted_rates.items()
        }

    def learn(self, result: function.IterationResult) -> None:
        """Credits the engine that made the children, or that was asked and made none."""
        arm = self._arms.get(str(self._get_mutator_name(result)))
        parent_score = max((function.get_fitness(fn) for fn in result.parents if fn.evaluation), default=None)
        if self._best_score is None:
            self._initial_score = self._best_score = parent_score
        gain = max((self._compute_gain(fn, parent_score) for fn, _ in result.children), default=0.0)
        if arm is None:
            return
        cost = max(1.0, self._count_trials(result, arm)) + self._call_cost * result.cost.calls
        decay = 0.5 ** (cost / self._half_life)
        for other_arm in self._arms.values():
            other_arm.gain, other_arm.cost, other_arm.iterations = (
                other_arm.gain * decay,
                other_arm.cost * decay,
                other_arm.iterations * decay,
            )
        arm.gain, arm.cost, arm.iterations = arm.gain + gain, arm.cost + cost, arm.iterations + 1

    def _get_mutator_name(self, outcome: function.IterationResult) -> JSON:
        for fn, _ in outcome.children:
            if fn.candidate and fn.candidate.meta.get(ENGINE_KEY) in self._arms:
                return fn.candidate.meta[ENGINE_KEY]
        return outcome.advice.get(ENGINE_KEY)

    def _count_trials(self, outcome: function.IterationResult, arm: BanditArm) -> float:
        """Returns how many drafts a step judged; where it made no child to say so, as many as before."""
        trial_counts = [fn.candidate.meta.get("trials", 1) for fn, _ in outcome.children if fn.candidate]
        counts = [count for count in trial_counts if isinstance(count, int | float)]
        return float(sum(counts)) if counts else arm.cost_per_iteration

    def _compute_gain(self, fn: function.Function, parent_score: float | None) -> float:
        score = function.get_fitness(fn) if fn.evaluation else None
        if (
            score is None
            or parent_score is None
            or self._best_score is None
            or self._initial_score is None
            or score <= parent_score
        ):
            return 0.0
        if score <= self._best_score:
            return _SMALL_GAIN
        improvement, self._best_score = score - self._best_score, score
        return improvement / (score - self._initial_score)


@dataclass(frozen=True, slots=True)
class MixedMutator:
    """Lets one of several engines propose: the one that the advice names, else one drawn evenly.

    One that can do nothing with its parents makes room for the others, in their order.

    Attributes:
        engines: By the name that each one notes with its children.
        learner: What advises it; hand it to the evolver too. None where there is nothing to choose.
    """

    mutators: Mapping[str, function.Proposer]
    learner: MutatorBandit | None = field(default=None, compare=False)

    @classmethod
    def with_bandit(cls, mutators: Mapping[str, function.Proposer], weights: MutatorWeights = EMPTY) -> "MixedMutator":
        """Returns a mix with a bandit of its own."""
        return cls(mutators, MutatorBandit(list(mutators), weights=weights) if len(mutators) > 1 else None)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children of the first engine that can make some.

        Raises:
            ValueError: The engine failed, or none could do anything.
        """
        advised_name = str(context.advice.get(ENGINE_KEY))
        first = advised_name if advised_name in self.mutators else context.rng.choice(list(self.mutators))
        failures: list[str] = []
        for name in (first, *(other_name for other_name in self.mutators if other_name != first)):
            try:
                return self.mutators[name].propose(context)
            except NotApplicable as error:
                failures.append(f"{name}: {error}")
        raise ValueError(" ".join(failures))


NAME = "refined"


@dataclass(frozen=True, slots=True)
class TunedMutator:
    """Lets another engine propose, judges what it made and tunes the numbers of what ran.

    Attributes:
        engine: Who proposes.
        tuner: How the child is tuned; with few evaluations, since most ideas are bad ones.
    """

    mutator: function.Proposer
    tuner: Tuner = field(default_factory=lambda: Tuner(budget=24, patience=8, with_literals=True, max_literals=5))

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children of the engine, each with the best constants that were found."""
        return [self._tune_child(context, child) for child in self.mutator.propose(context)]

    def _tune_child(self, context: function.ProposalContext, child: function.Function) -> function.Function:
        [evaluation] = context.evaluate([child])
        if evaluation.score is None:
            return _with_trials(child, 1)
        try:
            skeleton, trials = self.tuner.tune(context, child, evaluation.score)
        except NotApplicable:
            return _with_trials(child, 1)
        if skeleton is None:
            return _with_trials(child, 1 + trials)
        tuned_child = child.clone(skeleton).with_evaluation(replace(_get_candidate(child), content=str(skeleton)))
        return _with_trials(tuned_child, 1 + trials)


def _with_trials(fn: function.Function, trials: int) -> function.Function:
    base = _get_candidate(fn)
    return fn.with_evaluation(replace(base, meta={**base.meta, "engine": NAME, "trials": trials}))


def _get_candidate(fn: function.Function) -> candidate.Candidate:
    return fn.candidate or candidate.Candidate("", str(fn.skeleton()))

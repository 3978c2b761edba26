"""Combined mutators: a mix whose shares a bandit learns, and a mutator whose children are tuned."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from atoll import candidate, errors, evaluation, function
from atoll.candidate import EMPTY, JSON
from atoll.mutation.choice_mutator import ChoiceMutator, find_choices
from atoll.mutation.syntax import SyntaxMutator, Vocabulary, is_mutable
from atoll.mutation.text_blocks import TUNED_SUFFIX, NotApplicable, summarize_change
from atoll.mutation.tuner import Tuner, find_tunables

type MutatorName = Literal[
    "syntax", "refined", "tuner", "choices", "llm", "diff", "rewrite"
]  # in `make_default_mutator`
type MutatorWeights = Mapping[MutatorName, float] | Mapping[str, float]
ENGINE_KEY = "engine"  # in the advice, and in the meta of every child
UNTUNED_KEY = "untuned_score"  # in the meta of a child whose constants were tuned
REJECTED_KEY = "rejected"  # in the meta of a child that its proposer has tested: why it is not evaluated further
_PRIOR_GAIN = 0.5  # gain assumed of an untried mutator, over `_PRIOR_COST` evaluations
_PRIOR_COST = 40.0
_SMALL_GAIN = 0.02  # of a child that beats its parents but not the best candidate


@dataclass(slots=True)
class BanditArm:
    """Recent gain and cost of one mutator."""

    gain: float = 0.0
    cost: float = 0.0
    iterations: float = 0.0

    @property
    def rate(self) -> float:
        """Gain per evaluation."""
        return (self.gain + _PRIOR_GAIN) / (self.cost + _PRIOR_COST)

    @property
    def cost_per_iteration(self) -> float:
        return (self.cost + 1.0) / (self.iterations + 1.0)


class MutatorBandit:
    """Advises a mutator for each iteration. Each gets evaluations in proportion to its recent gain per evaluation.

    The gain of a new best is its share of the whole gain since the initial candidate. So scores of any scale count
    alike. A mutator that needs forty evaluations per iteration is chosen a fortieth as often. Cost counts evaluations
    and LLM calls. It never counts seconds, because two runs with one seed must not differ.

    Args:
        names: The mutators.
        min_share: Smallest share of evaluations of each mutator. A mutator that fails now may succeed later.
        half_life: Evaluations after which half of the learned gain is forgotten, so that a plateau changes the mix.
        call_cost: Cost of an LLM call, in evaluations.
        weights: Factor for the gain of each mutator, 1 by default. A mutator with weight 0 is never used.

    Raises:
        SetupError: A number is out of range.
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
                f"The bandit has {len(names)} mutators, min_share {min_share}, half_life {half_life} and call_cost "
                f"{call_cost}. The shares must add up to at most 1, half_life must be positive, call_cost not negative."
            )
        custom_weights = {str(name): weight for name, weight in weights.items()}
        self._weights = {name: custom_weights.get(name, 1.0) for name in names}
        if not any(self._weights.values()) or min(self._weights.values()) < 0:
            raise errors.SetupError(
                f"The weights of the mutators {', '.join(names)} are {list(self._weights.values())}. Set at least one "
                "above 0 and none below 0."
            )
        self._arms = {name: BanditArm() for name in names}
        self._min_share, self._half_life, self._call_cost = min_share, half_life, call_cost
        self._initial_score: float | None = None
        self._best_score: float | None = None

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Returns the name of a mutator."""
        shares = self.compute_shares()
        iteration_weights = [share / self._arms[name].cost_per_iteration for name, share in shares.items()]
        return {ENGINE_KEY: rng.choices(list(shares), iteration_weights)[0]}

    def compute_shares(self) -> Mapping[str, float]:
        """Returns the share of evaluations of each mutator."""
        weighted_rates = {name: arm.rate * self._weights[name] for name, arm in self._arms.items()}
        total = sum(weighted_rates.values())
        remaining_share = 1 - self._min_share * sum(rate > 0 for rate in weighted_rates.values())
        return {
            name: self._min_share + remaining_share * rate / total if rate else 0.0
            for name, rate in weighted_rates.items()
        }

    def learn(self, result: function.IterationResult) -> None:
        """Credits the mutator that made the children, or the advised mutator if it made none."""
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
            other_arm.gain *= decay
            other_arm.cost *= decay
            other_arm.iterations *= decay
        arm.gain += gain
        arm.cost += cost
        arm.iterations += 1

    def _get_mutator_name(self, result: function.IterationResult) -> JSON:
        for fn, _ in result.children:
            if fn.candidate and fn.candidate.meta.get(ENGINE_KEY) in self._arms:
                return fn.candidate.meta[ENGINE_KEY]
        return result.advice.get(ENGINE_KEY)

    def _count_trials(self, result: function.IterationResult, arm: BanditArm) -> float:
        """Returns the trials of an iteration; without a child that has the count, the usual count."""
        trial_counts = [fn.candidate.meta.get("trials", 1) for fn, _ in result.children if fn.candidate]
        counts = [count for count in trial_counts if isinstance(count, int | float)]
        return float(sum(counts)) if counts else arm.cost_per_iteration

    def _compute_gain(self, fn: function.Function, parent_score: float | None) -> float:
        score = function.get_fitness(fn) if fn.evaluation else None
        if score is None or parent_score is None or score <= parent_score:
            return 0.0
        if self._best_score is None or self._initial_score is None:
            return 0.0
        if score <= self._best_score:
            return _SMALL_GAIN
        improvement, self._best_score = score - self._best_score, score
        return improvement / (score - self._initial_score)


@dataclass(frozen=True, slots=True)
class MixedMutator:
    """Lets one of several mutators propose: the advised one, else a random one.

    If it cannot change the parents, the others try in order.

    Attributes:
        mutators: By name; each writes its name into the meta of its children.
        learner: Source of the advice; pass it to the evolver too. None with a single mutator.
    """

    mutators: Mapping[str, function.Proposer]
    learner: MutatorBandit | None = field(default=None, compare=False)

    @classmethod
    def with_bandit(cls, mutators: Mapping[str, function.Proposer], weights: MutatorWeights = EMPTY) -> "MixedMutator":
        """Returns a mix with its own bandit."""
        return cls(mutators, MutatorBandit(list(mutators), weights=weights) if len(mutators) > 1 else None)

    def get_first(self) -> function.Proposer:
        """Returns the first mutator, without the tuner. With an LLM it makes one call."""
        first = next(iter(self.mutators.values()))
        return first.mutator if isinstance(first, ChildTuner) else first

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children of the first mutator that can change the parents.

        Raises:
            ValueError: The mutator failed, or no mutator can change the parents.
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
_MIN_TRIALS = 4  # fewer tell nothing
_PATIENCE, _OTHER_PATIENCE = 12, 8  # trials without a gain, of a new best and of any other child
_FIRST_TRIALS = 12  # after which any other child must have made up for half of its distance to the best


@dataclass(frozen=True, slots=True)
class TunedMutator:
    """Lets another mutator propose, evaluates the children and tunes their numbers.

    Attributes:
        mutator: Makes the children.
        tuner: Tunes each child with few evaluations, because most children are worse than their parents.
    """

    mutator: function.Proposer
    tuner: Tuner = field(default_factory=lambda: Tuner(budget=24, patience=8, with_literals=True, max_literals=5))

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children of the mutator, each with its best constants."""
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


@dataclass(frozen=True, slots=True)
class ChildTuner:
    """Lets another mutator propose, and tunes the constants of its children.

    A child that is better than all before it is followed by its tuned version, a further child, so that the gain is
    credited to the tuner. Any other child is replaced by its tuned version: the constants of a new algorithm are
    mostly guesses, and say little about it. A child that stays far behind the best after a few trials gets no more.

    Attributes:
        mutator: Makes the children.
        is_failure: Whether an evaluation with a score reports an error.
        max_trials: Maximal trials per child.
        max_seconds: Maximal time of all trials of a child, estimated from its own evaluation; None: any, so that the
            result does not depend on time.
        tunes_all: Whether to tune children that are not better than all before them. They are not tuned if the
            iteration has a limit of evaluations, if an evaluation costs LLM calls, or if it is slow.
    """

    mutator: function.Proposer
    is_failure: Callable[[evaluation.Evaluation], object] = lambda result: False
    max_trials: int = 40
    max_seconds: float | None = None
    tunes_all: bool = False

    @classmethod
    def timed(
        cls,
        mutator: function.Proposer,
        is_failure: Callable[[evaluation.Evaluation], object] = lambda result: False,
        max_seconds: float = 10.0,
    ) -> "ChildTuner":
        """Returns a tuner of all children whose trials are limited by time. Not for deterministic runs."""
        return cls(mutator, is_failure, 60, max_seconds, tunes_all=True)

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns the children of the mutator, with their tuned versions."""
        children = list[function.Function]()
        for child in self.mutator.propose(context):
            is_rejected = REJECTED_KEY in _get_candidate(child).meta
            children += [child] if is_rejected else self._tune(context, child)
        return children

    def _tune(self, context: function.ProposalContext, child: function.Function) -> Sequence[function.Function]:
        """Returns the child, or its tuned version, or both."""
        if context.max_evaluations is not None and context.max_evaluations < 2:
            return [child]
        [result] = context.evaluate([child])
        if result.score is None or self.is_failure(result):
            return [child]
        best = self._find_best_score(context)
        is_best = best is None or result.score > best
        if not is_best and (not self.tunes_all or context.max_evaluations is not None or result.cost.calls):
            return [child]
        skeleton, trials = self._search(context, child, result, None if is_best else best)
        if skeleton is None:
            return [child]
        old = _get_candidate(child)
        idea = old.meta.get("idea")
        meta: dict[str, JSON] = {"trials": trials} | ({"idea": f"{idea}{TUNED_SUFFIX}"} if idea else {})
        if not is_best:
            parent = next((fn for fn in context.parents if _get_candidate(fn).id in old.parents), context.parents[-1])
            meta = {**old.meta, **meta, UNTUNED_KEY: result.score}
            meta |= {"change": summarize_change(str(parent.skeleton()), str(skeleton))}
            return [child.clone(skeleton).with_evaluation(replace(old, content=str(skeleton), meta=meta))]
        meta |= {"engine": "tuner", "from_score": result.score, **_get_operator(child)}
        meta |= {"change": summarize_change(str(child.skeleton()), str(skeleton))}
        tuned = candidate.Candidate("", str(skeleton), old.parents, meta=meta)
        return [child, child.clone(skeleton).with_evaluation(tuned)]

    def _find_best_score(self, context: function.ProposalContext) -> float | None:
        """Returns the best score of the run and of the parents; None if none is known."""
        state = context.advice.get("state")
        known = state.get("best") if isinstance(state, Mapping) else None
        scores = [
            fn.score() for fn in context.parents if fn.evaluation is not None and not self.is_failure(fn.evaluation)
        ]
        return max((score for score in (known, *scores) if isinstance(score, int | float)), default=None)

    def _search(
        self,
        context: function.ProposalContext,
        child: function.Function,
        result: evaluation.Evaluation,
        goal: float | None,
    ) -> tuple[function.AnySkeleton | None, int]:
        """Returns a better skeleton, or None, and the number of trials. With a goal it may give up early."""
        num_trials, first_score = self.max_trials, result.score or 0.0
        if self.max_seconds is not None:
            num_trials = min(num_trials, int(self.max_seconds / max(result.cost.seconds, 1e-3)))
        if num_trials < (_MIN_TRIALS if goal is None else _FIRST_TRIALS):
            return None, 0

        def is_hopeless(trials: int, score: float) -> bool:
            return goal is not None and trials >= _FIRST_TRIALS and goal - score > (goal - first_score) / 2

        tuner = Tuner(budget=num_trials, patience=_PATIENCE if goal is None else _OTHER_PATIENCE, with_literals=True)
        try:
            return tuner.tune(context, child, first_score, is_hopeless)
        except (ValueError, errors.SetupError):
            return None, 0  # nothing to tune, or an LLM declared an impossible range


def _get_operator(fn: function.Function) -> Mapping[str, JSON]:
    meta = _get_candidate(fn).meta
    return {"operator": meta["operator"]} if "operator" in meta else {}


def _with_trials(fn: function.Function, trials: int) -> function.Function:
    base = _get_candidate(fn)
    return fn.with_evaluation(replace(base, meta={**base.meta, "engine": NAME, "trials": trials}))


def _get_candidate(fn: function.Function) -> candidate.Candidate:
    return fn.candidate or candidate.Candidate("", str(fn.skeleton()))


def make_default_mutator(
    text: str, vocabulary: Vocabulary | None = None, weights: MutatorWeights = EMPTY
) -> MixedMutator:
    """Returns a mix of the mutators that need no LLM.

    They change syntax, tune declared constants (or all constants if none is declared), and choose words from lists.

    Args:
        text: Source of the initial candidate.
        vocabulary: Names and constants for the syntax mutator.
        weights: See `MutatorBandit`.

    Raises:
        SetupError: The declaration of a tunable is invalid, for example its bounds are reversed.
        ValueError: The text is not valid Python, or nothing in it may change.
    """
    find_tunables(text)
    choice_mutators: dict[str, function.Proposer] = {"choices": ChoiceMutator()} if find_choices(text) else {}
    if choice_mutators and not is_mutable(text):
        return MixedMutator.with_bandit(choice_mutators, weights)
    syntax_mutator = SyntaxMutator.for_source(text, vocabulary)
    mutators: dict[str, function.Proposer] = {
        "syntax": syntax_mutator,
        "refined": TunedMutator(syntax_mutator),
        "tuner": Tuner(with_literals=True),
        **choice_mutators,
    }
    return MixedMutator.with_bandit(mutators, weights)


def add_mutators(
    proposer: function.Proposer | function.MutationEngine, text: str, name: str = "llm", weights: MutatorWeights = EMPTY
) -> MixedMutator:
    """Returns an LLM mutator, mixed with a tuner if the source declares tunables, and with those that `weights` names.

    Args:
        proposer: Calls the LLM.
        text: Source of the initial candidate, in any language.
        name: Name of the proposer in the meta of its children.
        weights: See `MutatorBandit`. A weight above 0 adds `tuner` or `syntax`.

    Raises:
        SetupError: The declaration of a tunable is invalid.
    """
    mutators = {name: function.as_proposer(proposer)}
    requested = {str(key) for key, weight in weights.items() if weight > 0}
    has_tunables = _declares_tunables(text)
    if has_tunables or "tuner" in requested:
        mutators["tuner"] = Tuner(with_literals=not has_tunables)
    if "syntax" in requested and is_mutable(text):
        mutators["syntax"] = SyntaxMutator.for_source(text)
    return MixedMutator.with_bandit(mutators, weights)


def _declares_tunables(text: str) -> bool:
    try:
        return bool(find_tunables(text).tunables)
    except ValueError:
        return False

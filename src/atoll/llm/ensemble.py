"""Several LLMs as one: the selection for each iteration by learners, and a list of calls that wait."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from random import Random
from threading import Lock
from typing import Literal, NamedTuple

from atoll import errors, function
from atoll.candidate import JSON
from atoll.llm.base import LLM, LLMError, Response, current_meter

ADVICE_KEY = "llm"  # advice key for the name of the selected LLM
ROLE_KEY, CHEAPEST = "llm_role", "cheapest"  # advice: call the cheapest LLM; no router learns from the iteration


@dataclass(frozen=True, slots=True)
class EnsembleMember:
    """One LLM of an ensemble.

    Attributes:
        name: Name as written by the user; used in advice.
        weight: Relative frequency; 0 means only if another LLM fails.
    """

    name: str
    llm: LLM
    weight: float = 1.0


class EnsembleLLM:
    """Calls the LLM that is selected for the iteration, and the next one if it fails.

    The default is the first LLM. A `function.Learner`, such as those below, selects it, so that a resumed or
    repeated run makes the same choices.
    """

    selected: ContextVar[str | None] = ContextVar("atoll_chosen_llm", default=None)

    def __init__(self, members: Sequence[EnsembleMember]) -> None:
        """Takes the members in order of preference.

        Raises:
            SetupError: The list is empty, a name is repeated, or no weight is above 0.
        """
        names = [member.name for member in members]
        if len(set(names)) < len(names):
            duplicate = next(name for name in names if names.count(name) > 1)
            raise errors.SetupError(f"LLM {duplicate!r} is named twice. Name it once, with a weight.")
        weights = [member.weight for member in members]
        if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or sum(weights) <= 0:
            raise errors.SetupError(
                "Weights of LLMs must be 0 or more, and one above 0. Write for example openai:a*0.8."
            )
        self.members = tuple(members)

    def __repr__(self) -> str:
        return f"EnsembleLLM({', '.join(f'{member.name}*{member.weight:g}' for member in self.members)})"

    def __call__(self, prompt: str) -> Response:
        """Returns the first response.

        Raises:
            LLMError: All LLMs failed. It is down only if all are.
        """
        failures: list[LLMError] = []
        meter = current_meter.get()
        for member in self._order_members():
            try:
                if meter is not None:
                    meter.reserve()
                return member.llm(prompt)
            except LLMError as error:
                failures.append(error)
                if meter is not None:
                    meter.fail(error.cost)
        statuses = {error.status for error in failures}
        raise LLMError(
            " ".join(str(error) for error in failures),
            status=statuses.pop() if len(statuses) == 1 else None,
            is_transient=any(error.is_transient for error in failures),
            is_down=all(error.is_down for error in failures),
            cost=failures[-1].cost,
        )

    def _order_members(self) -> Sequence[EnsembleMember]:
        selected = self.selected.get()
        return sorted(self.members, key=lambda member: member.name != selected)  # stable: the others keep their order


class RoutedProposer:
    """Proposer whose iterations call the LLM named in their advice, or the cheapest one if they have this role."""

    def __init__(self, mutation_engine: function.MutationEngine | function.Proposer, cheapest: str = "") -> None:
        self._proposer, self._cheapest = function.as_proposer(mutation_engine), cheapest

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        name = context.advice.get(ADVICE_KEY)
        if self._cheapest and context.advice.get(ROLE_KEY) == CHEAPEST:
            name = self._cheapest
        token = EnsembleLLM.selected.set(name if isinstance(name, str) else None)
        try:
            return self._proposer.propose(context)
        finally:
            EnsembleLLM.selected.reset(token)


def find_cheapest(ensemble: EnsembleLLM) -> str:
    """Returns the name of the member with the lowest price; if a price is unknown, that of the first member."""
    members = [member for member in ensemble.members if member.weight > 0]
    prices = [getattr(member.llm, "price", None) for member in members]
    known = [(price.input_mtok + price.output_mtok, i) for i, price in enumerate(prices) if price is not None]
    return members[min(known)[1] if len(known) == len(members) else 0].name


type RoutingMethod = Literal["weights", "bandit", "plateau"]

_DECAY, _MIN_FACTOR = 0.8, 0.05  # of the reliability per iteration; and the smallest factor for a share
_MIN_COST_SHARE = 0.01  # of the highest price: a free LLM must not be infinitely good


def make_router(route: RoutingMethod, ensemble: EnsembleLLM, *, plateau_iterations: int = 20) -> function.Learner:
    """Returns the learner that selects among the members.

    Args:
        route: `weights` draws by weight. `bandit` prefers improvement per dollar. `plateau` draws by weight, without
            the last member, which it selects while nothing improves.
        ensemble: Members to select from.
        plateau_iterations: Iterations without a new best that count as a plateau.
    """
    match route:
        case "weights":
            return WeightRouter(ensemble.members)
        case "bandit":
            return BanditRouter(ensemble.members)
        case "plateau":
            return PlateauRouter(ensemble.members, plateau_iterations)


class Reliability:
    """Recent share of the iterations of each LLM that led to an evaluated candidate.

    An LLM that fails, repeats known programs or gives unreadable responses loses most of its share within a few
    iterations, and regains it as quickly.
    """

    def __init__(self) -> None:
        self._rates: dict[str, float] = {}

    def get_factor(self, name: str) -> float:
        """Returns the factor for the share of an LLM, from 0.05 to 1."""
        return max(_MIN_FACTOR, self._rates.get(name, 1.0) ** 2)

    def learn(self, result: function.IterationResult) -> None:
        """Learns from an iteration that called an LLM; others, such as those of a tuner, do not count."""
        name = result.advice.get(ADVICE_KEY)
        if isinstance(name, str) and (result.cost.calls or result.failure):
            is_useful = any(fn.evaluation is not None for fn, _ in result.children)
            self._rates[name] = _DECAY * self._rates.get(name, 1.0) + (1 - _DECAY) * is_useful


class WeightRouter:
    """Draws an LLM by weight, less often while it is unreliable."""

    def __init__(self, members: Sequence[EnsembleMember]) -> None:
        self._weights = {member.name: member.weight for member in members}
        self._reliability = Reliability()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        weights = [weight * self._reliability.get_factor(name) for name, weight in self._weights.items()]
        return {ADVICE_KEY: rng.choices(list(self._weights), weights)[0]}

    def learn(self, result: function.IterationResult) -> None:
        if ROLE_KEY not in result.advice:
            self._reliability.learn(result)


class PlateauRouter:
    """Selects the last LLM while the best has not improved for some iterations, the others otherwise."""

    def __init__(self, members: Sequence[EnsembleMember], iterations: int) -> None:
        self._strong, self._weight_router = members[-1].name, WeightRouter(members[:-1] or members)
        self._plateau_iterations, self._idle_iterations = iterations, 0
        self._best = -math.inf

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return (
            {ADVICE_KEY: self._strong}
            if self._idle_iterations >= self._plateau_iterations
            else self._weight_router.advise(rng)
        )

    def learn(self, result: function.IterationResult) -> None:
        if ROLE_KEY in result.advice:
            return
        self._weight_router.learn(result)
        parent_score = max((_get_score(fn) for fn in result.parents), default=-math.inf)
        child_score = _get_best_child_score(result)
        self._idle_iterations = 0 if child_score > max(self._best, parent_score) else self._idle_iterations + 1
        self._best = max(self._best, parent_score, child_score)


@dataclass(slots=True)
class _BanditArm:
    num_iterations: int = 0
    gain: float = 0.0
    usd: float = 0.0


class BanditRouter:
    """Selects by an upper bound on improvement per dollar: (mean + margin) / cost.

    The index is that of KUBE (Tran-Thanh et al., AAAI 2012).

    The gain of an iteration is the improvement of its best child over its best parent, scaled to 0 to 1 for any scores.
    The margin shrinks with the iterations of an LLM and is scaled by the largest gain so far. Gains are mostly far
    below 1, so a margin for [0, 1] would explore for too long. Without prices all LLMs cost the same.
    """

    def __init__(self, members: Sequence[EnsembleMember]) -> None:
        self._arms = {member.name: _BanditArm() for member in members if member.weight > 0}
        self._max_gain, self._reliability = 0.0, Reliability()

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        # Several iterations start before the first result, so it draws among the untried.
        untried = [name for name, arm in self._arms.items() if not arm.num_iterations]
        if untried:
            return {ADVICE_KEY: rng.choice(untried)}
        upper_bounds = self._compute_bounds()
        best = max(upper_bounds.values())
        return {ADVICE_KEY: rng.choice([name for name, bound in upper_bounds.items() if bound == best])}

    def learn(self, result: function.IterationResult) -> None:
        if ROLE_KEY in result.advice:
            return
        self._reliability.learn(result)
        arm = self._arms.get(str(result.advice.get(ADVICE_KEY)))
        if arm is None:
            return
        parent_score = max((_get_score(fn) for fn in result.parents), default=-math.inf)
        child_score = _get_best_child_score(result)
        gain = 0.0
        if child_score > parent_score > -math.inf:
            gain = (child_score - parent_score) / (child_score - parent_score + abs(parent_score))
        arm.num_iterations, arm.gain, arm.usd = arm.num_iterations + 1, arm.gain + gain, arm.usd + result.cost.usd
        self._max_gain = max(self._max_gain, gain)

    def _compute_bounds(self) -> Mapping[str, float]:
        total = sum(arm.num_iterations for arm in self._arms.values())
        costs = {name: arm.usd / arm.num_iterations for name, arm in self._arms.items()}
        max_cost = max(costs.values()) or 1.0
        scale = self._max_gain or 1.0
        return {
            name: (arm.gain / arm.num_iterations + scale * math.sqrt(2 * math.log(total) / arm.num_iterations))
            / max(costs[name] / max_cost, _MIN_COST_SHARE if any(costs.values()) else 1.0)
            * self._reliability.get_factor(name)
            for name, arm in self._arms.items()
        }


class CombinedLearner:
    """Several learners as one. If two advise the same key, the later wins."""

    def __init__(self, *learners: function.Learner) -> None:
        self._learners = learners

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {key: value for learner in self._learners for key, value in learner.advise(rng).items()}

    def learn(self, result: function.IterationResult) -> None:
        for learner in self._learners:
            learner.learn(result)


def _get_score(fn: function.Function) -> float:
    evaluation = fn.evaluation
    return -math.inf if evaluation is None or evaluation.score is None else evaluation.score


def _get_best_child_score(result: function.IterationResult) -> float:
    return max((_get_score(fn) for fn, decision in result.children if decision.verdict == "accept"), default=-math.inf)


class WaitingCall(NamedTuple):
    """The call that waits longest.

    Attributes:
        model: Name of its LLM.
        seconds: Time since the call.
        num_calls: Number of calls that wait, with this one.
    """

    model: str
    seconds: float
    num_calls: int


class CallTracker:
    """Passes calls on to an LLM and remembers those without a response; thread-safe.

    Attributes:
        on_response: Called with each response and the seconds that it took. It must not raise.
    """

    on_response: Callable[[Response, float], None] | None = None

    def __init__(self, llm: LLM, name: str = "the LLM") -> None:
        """Wraps an LLM.

        Args:
            llm: The LLM to call.
            name: Its name, if it has no attribute `model`.
        """
        self._llm, self._name, self._lock = llm, name, Lock()
        self._waiting: dict[object, tuple[float, str]] = {}

    def __call__(self, prompt: str) -> Response:
        call, started_at = object(), time.monotonic()
        with self._lock:
            self._waiting[call] = started_at, self._find_model()
        try:
            response = self._llm(prompt)
        finally:
            with self._lock:
                del self._waiting[call]
        if self.on_response is not None:
            self.on_response(response, time.monotonic() - started_at)
        return response

    def find_longest(self) -> WaitingCall | None:
        """Returns the call that waits longest; None if no call waits."""
        with self._lock:
            if not self._waiting:
                return None
            started_at, model = next(iter(self._waiting.values()))
            return WaitingCall(model, time.monotonic() - started_at, len(self._waiting))

    def _find_model(self) -> str:
        model, name = self._llm, self._name
        if isinstance(model, EnsembleLLM):
            selected = EnsembleLLM.selected.get()
            member = next((member for member in model.members if member.name == selected), model.members[0])
            model, name = member.llm, member.name
        return str(getattr(model, "model", None) or name.partition("@")[0])

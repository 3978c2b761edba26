"""LLM budget of a run. Each call first reserves the most that it can cost."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Any, Protocol

from atoll import control
from atoll.evaluation import ZERO_COST, Cost
from atoll.journal import CallCache
from atoll.llm.base import LLM, LLMError, Response

_SAMPLE_TOKENS = 1000  # some prices rise with the length of the prompt; those of Atoll are short


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, in and out."""

    input_mtok: float
    output_mtok: float

    def compute_usd(self, tokens_in: int, tokens_out: int) -> float:
        """Returns the cost of a call in US dollars."""
        return (tokens_in * self.input_mtok + tokens_out * self.output_mtok) / 1e6


def find_price(service: str, model: str, base_url: str) -> Price | None:
    """Returns the list price of a model: by the address of a gateway, else by the service."""
    import genai_prices  # slow: loads the prices of a thousand models

    def compute_price(tokens_in: int, tokens_out: int, **provider: Any) -> float | None:
        usage = genai_prices.Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        try:
            return float(genai_prices.calc_price(usage, model, **provider).total_price) * 1e6 / _SAMPLE_TOKENS
        except LookupError:
            return None

    for provider in ({"provider_api_url": base_url}, {"provider_id": service}, {"provider_id": "openai"}):
        prices = compute_price(_SAMPLE_TOKENS, 0, **provider), compute_price(0, _SAMPLE_TOKENS, **provider)
        if prices[0] is not None and prices[1] is not None:
            return Price(prices[0], prices[1])
    return None


_LIMIT_NAMES = ("usd", "tokens", "calls")


class CostBound(Protocol):
    """Returns the most that a call can cost, before it is made."""

    def __call__(self, prompt: str, /) -> Cost: ...


@dataclass(eq=False)
class LLMBudget:
    """Keeps the cost of calls within limits, for any number of concurrent calls.

    A call waits while others reserve what it needs, because most return a part of it. If no reservation is left and
    the call still does not fit, the budget is exhausted and `on_exhausted` is called.

    Attributes:
        budget: Limits of all calls together, in dollars, tokens and calls.
        island_budget: Limits of the calls of one island.
        used: Cost so far, including that of earlier sessions of the run.
        used_by_island: The same for each island.
        on_exhausted: Called with the reason, from the threads of the calls that do not fit.
        num_islands: Number of islands, if `island_budget` is set. The budget is exhausted once all islands are.
        get_budget: Returns the current budget, if it can be raised during the run.
    """

    budget: control.Budget = control.UNLIMITED
    island_budget: control.Budget = control.UNLIMITED
    used: Cost = ZERO_COST
    used_by_island: dict[int, Cost] = field(default_factory=dict)
    on_exhausted: Callable[[str], None] = lambda reason: None
    num_islands: int | None = None
    get_budget: Callable[[], control.Budget] | None = None

    def __post_init__(self) -> None:
        self._condition = Condition()
        self._reservations: list[tuple[int, Cost]] = []
        self._exhausted_islands: set[int] = set()
        self.reason = ""

    @contextmanager
    def reserve(self, island: int, max_cost: Cost) -> Iterator[list[Cost]]:
        """Reserves the most that a call may cost. The caller appends the actual cost to the list.

        Raises:
            LLMError: The budget is exhausted.
        """
        reservation = (island, max_cost)
        self._wait_for_budget(reservation)
        costs: list[Cost] = []
        try:
            yield costs
        finally:
            with self._condition:
                self._reservations.remove(reservation)
                for cost in costs:
                    self.used += cost
                    self.used_by_island[island] = self.used_by_island.get(island, ZERO_COST) + cost
                self._condition.notify_all()

    def _wait_for_budget(self, reservation: tuple[int, Cost]) -> None:
        island, max_cost = reservation
        with self._condition:
            self.budget = self.get_budget() if self.get_budget else self.budget
            while not self.reason and (exceeded := self._find_exceeded_limit(island, max_cost)):
                competing = [other for other in self._reservations if exceeded.is_global or other[0] == island]
                if competing:
                    self._condition.wait()
                elif exceeded.is_global:
                    self.reason = exceeded.reason
                    self._condition.notify_all()
                else:
                    self._exhausted_islands.add(island)
                    if self.num_islands is None or len(self._exhausted_islands) < self.num_islands:
                        raise LLMError(f"Island {island} has used its LLM budget: {exceeded.reason}")
                    self.reason = f"every island has used its LLM budget: {exceeded.reason}"
            if not self.reason:
                self._reservations.append(reservation)
                return
        self.on_exhausted(self.reason)  # outside the lock: it may stop the run, which waits for other threads
        raise LLMError(f"The LLM budget is used up: {self.reason}")

    def _find_exceeded_limit(self, island: int, max_cost: Cost) -> "_ExceededLimit | None":
        """Returns the limit that a call could exceed, if any."""
        total_used = sum((cost for _, cost in self._reservations), self.used)
        island_used = sum(
            (cost for reserved_island, cost in self._reservations if reserved_island == island),
            self.used_by_island.get(island, ZERO_COST),
        )
        for is_global, budget, used in ((True, self.budget, total_used), (False, self.island_budget, island_used)):
            limits, used_amounts, requested = _get_limits(budget), _get_amounts(used), _get_amounts(max_cost)
            for name, limit in limits.items():
                if used_amounts[name] + requested[name] > limit:
                    return _ExceededLimit(is_global, _describe_limit(name, limit, requested[name]))
        return None


@dataclass(frozen=True, slots=True)
class _ExceededLimit:
    is_global: bool
    reason: str


@dataclass(frozen=True, slots=True)
class MeteredLLM:
    """LLM that is called only if the budget allows it."""

    llm: LLM
    budget: LLMBudget
    cost_bound: CostBound

    def __call__(self, prompt: str) -> Response:
        call_cache = CallCache.current.get()
        island = call_cache.island if call_cache is not None else -1
        with self.budget.reserve(island, self.cost_bound(prompt)) as costs:
            response = self.llm(prompt)
            costs.append(
                Cost(response.cost.seconds, response.cost.tokens_in, response.cost.tokens_out, response.cost.usd, 1)
            )
        return response


@dataclass(frozen=True, slots=True)
class TokenCountingLLM:
    """LLM whose responses always have token counts. Missing counts are estimated: four characters per token."""

    llm: LLM

    def __call__(self, prompt: str) -> Response:
        response = self.llm(prompt)
        if response.cost.tokens_in or response.cost.tokens_out:
            return response
        tokens = {"tokens_in": -(-len(prompt) // 4), "tokens_out": -(-len(response.text) // 4)}
        return replace(response, cost=replace(response.cost, **tokens))


@dataclass(frozen=True, slots=True)
class PricedLLM:
    """LLM whose responses cost what a given price says, not what its provider reports."""

    llm: LLM
    price: Price

    def __call__(self, prompt: str) -> Response:
        response = self.llm(prompt)
        usd = self.price.compute_usd(response.cost.tokens_in, response.cost.tokens_out)
        return replace(response, cost=replace(response.cost, usd=usd))


def _get_limits(budget: control.Budget) -> Mapping[str, float]:
    return {name: limit for name in _LIMIT_NAMES if (limit := getattr(budget, name)) is not None}


def _get_amounts(cost: Cost) -> Mapping[str, float]:
    return {"usd": cost.usd, "tokens": cost.tokens_in + cost.tokens_out, "calls": cost.calls}


def _describe_limit(name: str, limit: float, requested: float) -> str:
    """Describes a limit like `control.Budget.find_exhausted_limit`, with the cost of the call."""
    if name == "usd":
        return f"budget of {limit:g} usd used: a call may cost ${requested:.4f}"
    return f"budget of {limit:g} {name} used" + ("" if name == "calls" else f": a call may take {requested:g}")

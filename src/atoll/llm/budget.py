"""LLM budget of a run. Each request first reserves its highest possible cost."""

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Any, Protocol

from atoll import control, errors
from atoll.evaluation import ZERO_COST, Cost
from atoll.journal import CHARGED, RESPONSE, CallCache, Journal, Record
from atoll.llm.base import LLM, BudgetExhausted, Response, current_meter, get_cost, get_messages, get_schema

DEFAULT_MAX_TOKENS = 4096  # longest response if llm.max_tokens is not set; a budget in tokens or dollars enforces it
_FRAME_TOKENS = 64  # added to each message by the service
_SAMPLE_TOKENS = 1000  # some prices rise with the length of the prompt; those of Atoll are short


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars per million tokens, in and out."""

    input_mtok: float
    output_mtok: float

    def compute_usd(self, tokens_in: int, tokens_out: int) -> float:
        """Returns the cost of a call in US dollars."""
        return (tokens_in * self.input_mtok + tokens_out * self.output_mtok) / 1e6

    def apply(self, cost: Cost) -> Cost:
        """Returns a cost of at least this price. Reported dollars may raise it, never lower it."""
        listed_usd = self.compute_usd(cost.tokens_in, cost.tokens_out)
        return replace(cost, usd=max(listed_usd, clean_usd(cost.usd)))


def clean_usd(value: object) -> float:
    """Returns reported dollars; 0 if they are missing, negative or not a number."""
    if isinstance(value, bool):
        return 0.0
    try:
        usd = float(value)  # type: ignore[arg-type]  # anything else raises
    except (TypeError, ValueError, OverflowError):
        return 0.0
    return usd if math.isfinite(usd) and usd > 0 else 0.0


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


_NO_ISLAND = -1  # of a call outside of iterations
_LIMIT_NAMES = ("usd", "tokens", "calls")


@dataclass(frozen=True, slots=True)
class CallPrice:
    """Upper bound for the cost of one LLM request.

    Attributes:
        price: Price of the tokens; None if unknown.
        max_tokens: Length of the longest response.
        system_tokens: Length of the longest system message that an LLM puts into its prompts.
    """

    price: Price | None
    max_tokens: int
    system_tokens: int = 0

    def max_cost(self, prompt: str) -> Cost:
        """Returns the highest possible cost of a request. A token has at least one byte."""
        schema = get_schema(prompt)
        text = f"{prompt}{'' if schema is None else json.dumps(schema)}"
        frames = _FRAME_TOKENS * len(get_messages(prompt))
        tokens = len(text.encode("utf-8", "replace")) + frames + self.system_tokens
        usd = self.price.compute_usd(tokens, self.max_tokens) if self.price else 0.0
        return Cost(0.0, tokens, self.max_tokens, usd, 1)


class CostBound(Protocol):
    """Returns the highest possible cost of a request, before it is sent."""

    def __call__(self, prompt: str, /) -> Cost: ...


@dataclass(eq=False)
class LLMBudget:
    """Keeps the cost of calls within limits, for any number of concurrent calls.

    A call that does not fit waits while other calls hold reservations: most cost less than they reserve. If no
    reservation is left and the call still does not fit, the budget is exhausted and `on_exhausted` is called.

    Attributes:
        budget: Limits of all calls together, in dollars, tokens and calls.
        island_budget: Limits of the calls of one island.
        used: Cost so far, including that of earlier starts of the run.
        used_by_island: The same for each island.
        on_exhausted: Called with the reason, from the threads of the calls that do not fit.
        num_islands: Number of islands, if `island_budget` is set. The budget is exhausted once all islands are.
        get_budget: Returns the current budget, if it can be raised during the run.
        journal: Stores each reservation before its request is sent, if there is a limit.
    """

    budget: control.Budget = control.UNLIMITED
    island_budget: control.Budget = control.UNLIMITED
    used: Cost = ZERO_COST
    used_by_island: dict[int, Cost] = field(default_factory=dict)
    on_exhausted: Callable[[str], None] = lambda reason: None
    num_islands: int | None = None
    get_budget: Callable[[], control.Budget] | None = None
    journal: Journal | None = None

    def __post_init__(self) -> None:
        self._condition = Condition()  # its lock may be taken again by the thread that has it
        self._reservations: list[tuple[int, Cost]] = []
        self._exhausted_islands: set[int] = set()
        self.reason = ""

    @property
    def committed(self) -> Cost:
        """Cost so far, with the reservations of requests in flight. It never exceeds the budget."""
        with self._condition:
            return sum((cost for _, cost in self._reservations), self.used)

    def reserve(self, island: int, max_cost: Cost) -> None:
        """Reserves the highest cost of a request; waits while it does not fit and others hold reservations.

        Raises:
            BudgetExhausted: The budget is exhausted.
        """
        self._wait_for_budget((island, max_cost))
        try:
            self._write("reserved", max_cost)
        except BaseException:
            self._release((island, max_cost), ZERO_COST)
            raise

    def settle(self, island: int, max_cost: Cost, cost: Cost, *, is_stored: bool = False) -> None:
        """Replaces a reservation by the actual cost.

        Args:
            is_stored: Whether the cost will be stored with the response.
        """
        self._release((island, max_cost), cost)
        if not is_stored and cost != max_cost:
            self._write("cost", cost)

    def _release(self, reservation: tuple[int, Cost], cost: Cost) -> None:
        island = reservation[0]
        with self._condition:
            self._reservations.remove(reservation)
            self.used += cost
            self.used_by_island[island] = self.used_by_island.get(island, ZERO_COST) + cost
            self._condition.notify_all()

    def _write(self, key: str, cost: Cost) -> None:
        """Writes a charge, so that a run counts it after a crash too."""
        if self.journal is not None and (_get_limits(self.budget) or _get_limits(self.island_budget)):
            call_cache = CallCache.current.get()
            iteration, call = call_cache.position if call_cache else (0, "")
            island = call_cache.island if call_cache else _NO_ISLAND
            self.journal.write(Record(CHARGED, iteration, island, {"call": call, key: cost.to_data()}))

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
                        raise BudgetExhausted(
                            f"Island {island} has used its LLM budget: {exceeded.reason}", cost=ZERO_COST
                        )
                    self.reason = f"every island has used its LLM budget: {exceeded.reason}"
            if not self.reason:
                self._reservations.append(reservation)
                return
        self.on_exhausted(self.reason)  # outside the lock: it may stop the run, which waits for other threads
        raise BudgetExhausted(f"The LLM budget is used up: {self.reason}", cost=ZERO_COST)

    def _find_exceeded_limit(self, island: int, max_cost: Cost) -> "_ExceededLimit | None":
        """Returns the limit that a call could exceed, if any."""
        island_used = sum(
            (cost for reserved_island, cost in self._reservations if reserved_island == island),
            self.used_by_island.get(island, ZERO_COST),
        )
        for is_global, budget, used in ((True, self.budget, self.committed), (False, self.island_budget, island_used)):
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
    """LLM that is called only if the budget allows it. Each request that it sends again is reserved too."""

    llm: LLM
    budget: LLMBudget
    cost_bound: CostBound

    def __call__(self, prompt: str) -> Response:
        """Returns the response.

        Raises:
            BudgetExhausted: The budget is exhausted.
        """
        meter = _BudgetMeter(self.budget, self.cost_bound(prompt))
        meter.reserve()
        token = current_meter.set(meter)
        try:
            response = self.llm(prompt)
        except BaseException as error:
            meter.fail(get_cost(error))
            raise
        finally:
            current_meter.reset(token)
        meter.succeed(response.cost)
        return response


def make_metered_llm(model: LLM, llm_budget: LLMBudget, max_tokens: int = DEFAULT_MAX_TOKENS) -> MeteredLLM:
    """Returns an LLM that stays within a budget, for code that makes its own evolver.

    Args:
        max_tokens: Longest response of an LLM that has no limit of its own.

    Raises:
        SetupError: The budget is in dollars and the price of the LLM is unknown. A function reports its dollars itself.
    """
    price = getattr(model, "price", None)
    has_dollars = llm_budget.budget.usd is not None or llm_budget.island_budget.usd is not None
    if has_dollars and price is None and hasattr(model, "price"):
        raise errors.SetupError(
            f"The price of {model!r:.80} is unknown, so a budget in dollars cannot be enforced. Pass "
            "price=llm.Price(...), as llm.price_in and llm.price_out in a configuration, or give the budget in "
            "tokens or calls."
        )
    call_price = CallPrice(price, getattr(model, "max_tokens", None) or max_tokens)
    return MeteredLLM(TokenCountingLLM(model), llm_budget, call_price.max_cost)


class _BudgetMeter:
    """Reserves each request of a call, in the budget and in the limit of the iteration."""

    def __init__(self, budget: LLMBudget, max_cost: Cost) -> None:
        call_cache, self._iteration_meter = CallCache.current.get(), current_meter.get()
        self._budget, self._max_cost, self._is_reserved = budget, max_cost, False
        self._island, self._is_stored = call_cache.island if call_cache else _NO_ISLAND, call_cache is not None

    def reserve(self) -> None:
        if not self._is_reserved:
            if self._iteration_meter is not None:
                self._iteration_meter.reserve()
            self._budget.reserve(self._island, self._max_cost)
            self._is_reserved = True

    def fail(self, cost: Cost | None) -> None:
        if self._is_reserved:
            actual_cost = self._max_cost if cost is None else cost
            self._is_reserved = False
            self._budget.settle(self._island, self._max_cost, actual_cost)
            if self._iteration_meter is not None:
                self._iteration_meter.fail(actual_cost)

    def succeed(self, cost: Cost) -> None:
        if self._is_reserved:
            self._is_reserved = False
            actual_cost = Cost(cost.seconds, cost.tokens_in, cost.tokens_out, cost.usd, 1)
            self._budget.settle(self._island, self._max_cost, actual_cost, is_stored=self._is_stored)


def read_charges(records: Iterable[Record]) -> dict[int, Cost]:
    """Returns the cost of the LLM requests of a run by island, from its journal.

    A request without a response or a settlement may have been sent before a crash. It counts with its reservation.
    """
    charges, open_requests = list[tuple[int, Cost]](), dict[tuple[int, int, str], list[Cost]]()
    for record in records:
        if record.kind not in (CHARGED, RESPONSE):
            continue
        data, island = record.data, record.island
        requests = open_requests.setdefault((island, record.step, str(data.get("call"))), [])
        if "reserved" in data:
            requests.append(Cost(*data["reserved"]))
            continue
        if requests:
            requests.pop()  # its own: a call sends one request after another
        usage = data["cost"] if record.kind == CHARGED else [*data.get("usage", ()), 1]
        charges.append((island, Cost(*usage) if len(usage) == 5 else Cost(calls=1)))
    charges += [(key[0], cost) for key, costs in open_requests.items() for cost in costs]
    by_island = dict[int, Cost]()
    for island, cost in charges:
        by_island[island] = by_island.get(island, ZERO_COST) + cost
    return by_island


def estimate_tokens(text: str) -> int:
    """Estimates the tokens of a text: four ASCII characters, or one other character, per token."""
    num_ascii = len(text.encode("ascii", "ignore"))
    return -(-num_ascii // 4) + len(text) - num_ascii


def add_missing_tokens(prompt: str, response: Response) -> Response:
    """Returns the response with estimates for the token counts that its provider did not report."""
    cost = response.cost
    if cost.tokens_in and (cost.tokens_out or not response.text):
        return response
    tokens_in = cost.tokens_in or estimate_tokens(prompt)
    return replace(
        response, cost=replace(cost, tokens_in=tokens_in, tokens_out=cost.tokens_out or estimate_tokens(response.text))
    )


@dataclass(frozen=True, slots=True)
class TokenCountingLLM:
    """LLM whose responses always have token counts. Missing counts are estimated."""

    llm: LLM

    def __call__(self, prompt: str) -> Response:
        return add_missing_tokens(prompt, self.llm(prompt))


@dataclass(frozen=True, slots=True)
class PricedLLM:
    """LLM whose responses cost at least a given price. Its provider may report more."""

    llm: LLM
    price: Price

    def __call__(self, prompt: str) -> Response:
        response = self.llm(prompt)
        return replace(response, cost=self.price.apply(response.cost))


def _get_limits(budget: control.Budget) -> Mapping[str, float]:
    return {name: limit for name in _LIMIT_NAMES if (limit := getattr(budget, name)) is not None}


def _get_amounts(cost: Cost) -> Mapping[str, float]:
    return {"usd": cost.usd, "tokens": cost.tokens_in + cost.tokens_out, "calls": cost.calls}


def _describe_limit(name: str, limit: float, requested: float) -> str:
    """Describes a limit like `control.Budget.find_exhausted_limit`, with the cost of the call."""
    if name == "usd":
        return f"budget of {limit:g} usd used: a call may cost ${requested:.4f}"
    return f"budget of {limit:g} {name} used" + ("" if name == "calls" else f": a call may take {requested:g}")

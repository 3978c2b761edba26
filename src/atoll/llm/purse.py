"""What a run may still spend on models: a call reserves the most that it can cost before it is made."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from threading import Condition
from typing import Protocol

from atoll import control
from atoll.evaluation import FREE, Cost
from atoll.journal import Ledger
from atoll.llm.llm import LLM, NoReply, Reply
from atoll.llm.price import Price

_LIMITS = ("usd", "tokens", "calls")


class Most(Protocol):
    """Says what one call can cost at most, before it is made: a model whose longest reply is known keeps to that."""

    def __call__(self, prompt: str, /) -> Cost: ...


@dataclass(eq=False)
class Purse:
    """Keeps what calls cost within limits, however many are in flight.

    A call waits while others hold what it needs, since most give back a part of it; once nobody does and it still
    does not fit, the purse is empty for good, and says so to whoever can end the run.

    Attributes:
        budget: What all calls together may cost; only dollars, tokens and calls count here.
        per_island: What the calls of one island may cost.
        spent: What calls have cost so far, also before this purse was there.
        by_island: The same for each island.
        num_islands: How many there are, where `per_island` counts: once each has used its share, the purse is empty.
        now: Says what the budget is now, where it may be raised meanwhile.
        on_empty: Told why, from the threads of the calls that do not fit.
    """

    budget: control.Budget = control.UNLIMITED
    per_island: control.Budget = control.UNLIMITED
    spent: Cost = FREE
    by_island: dict[int, Cost] = field(default_factory=dict)
    on_empty: Callable[[str], None] = lambda reason: None
    num_islands: int | None = None
    now: Callable[[], control.Budget] | None = None

    def __post_init__(self) -> None:
        self._changed = Condition()
        self._held: list[tuple[int, Cost]] = []
        self._poor: set[int] = set()
        self.reason = ""

    @contextmanager
    def paying(self, island: int, most: Cost) -> Iterator[list[Cost]]:
        """Holds what a call may cost while it is made; what it did cost is to be put into the list.

        Raises:
            NoReply: There is not enough left.
        """
        held = (island, most)
        self._reserve(held)
        bill: list[Cost] = []
        try:
            yield bill
        finally:
            with self._changed:
                self._held.remove(held)
                for cost in bill:
                    self.spent += cost
                    self.by_island[island] = self.by_island.get(island, FREE) + cost
                self._changed.notify_all()

    def _reserve(self, held: tuple[int, Cost]) -> None:
        island, most = held
        with self._changed:
            self.budget = self.now() if self.now else self.budget
            while not self.reason and (lacking := self._lacking(island, most)):
                rivals = [each for each in self._held if lacking.is_all or each[0] == island]
                if rivals:
                    self._changed.wait()
                elif lacking.is_all:
                    self.reason = lacking.reason
                    self._changed.notify_all()
                else:
                    self._poor.add(island)
                    if self.num_islands is None or len(self._poor) < self.num_islands:
                        raise NoReply(f"Island {island} may call no model any more: {lacking.reason}")
                    self.reason = f"every island has used its share: {lacking.reason}"
            if not self.reason:
                self._held.append(held)
                return
        self.on_empty(self.reason)  # outside of the lock: it may stop the run, which waits for others
        raise NoReply(f"No model is called any more: {self.reason}")

    def _lacking(self, island: int, most: Cost) -> "_Lack | None":
        """Says which limit a call would break, if it cost the most."""
        of_all = sum((cost for _, cost in self._held), self.spent)
        of_one = sum((cost for place, cost in self._held if place == island), self.by_island.get(island, FREE))
        for is_all, budget, used in ((True, self.budget, of_all), (False, self.per_island, of_one)):
            limits, spent, wanted = _amounts(budget), _of(used), _of(most)
            for name, limit in limits.items():
                if spent[name] + wanted[name] > limit:
                    return _Lack(is_all, _told(name, limit, wanted[name]))
        return None


@dataclass(frozen=True, slots=True)
class _Lack:
    is_all: bool
    reason: str


@dataclass(frozen=True, slots=True)
class Metered:
    """A model that is asked only if the purse can pay for it."""

    llm: LLM
    purse: Purse
    most: Most

    def __call__(self, prompt: str) -> Reply:
        ledger = Ledger.current.get()
        island = ledger.island if ledger is not None else -1
        with self.purse.paying(island, self.most(prompt)) as bill:
            reply = self.llm(prompt)
            bill.append(Cost(reply.cost.seconds, reply.cost.tokens_in, reply.cost.tokens_out, reply.cost.usd, 1))
        return reply


@dataclass(frozen=True, slots=True)
class Counted:
    """A model whose replies name their tokens, also where it tells of none: four characters make one, about."""

    llm: LLM

    def __call__(self, prompt: str) -> Reply:
        reply = self.llm(prompt)
        if reply.cost.tokens_in or reply.cost.tokens_out:
            return reply
        tokens = {"tokens_in": -(-len(prompt) // 4), "tokens_out": -(-len(reply.text) // 4)}
        return replace(reply, cost=replace(reply.cost, **tokens))


@dataclass(frozen=True, slots=True)
class Priced:
    """A model whose replies cost what a price says, whatever its provider says."""

    llm: LLM
    price: Price

    def __call__(self, prompt: str) -> Reply:
        reply = self.llm(prompt)
        usd = self.price.usd(reply.cost.tokens_in, reply.cost.tokens_out)
        return replace(reply, cost=replace(reply.cost, usd=usd))


def _amounts(budget: control.Budget) -> Mapping[str, float]:
    return {name: limit for name in _LIMITS if (limit := getattr(budget, name)) is not None}


def _of(cost: Cost) -> Mapping[str, float]:
    return {"usd": cost.usd, "tokens": cost.tokens_in + cost.tokens_out, "calls": cost.calls}


def _told(name: str, limit: float, wanted: float) -> str:
    """Says it as the kernel says that a budget is used, with what a call would need."""
    if name == "usd":
        return f"budget of {limit:g} usd used: a call may cost ${wanted:.4f}"
    return f"budget of {limit:g} {name} used" + ("" if name == "calls" else f": a call may take {wanted:g}")

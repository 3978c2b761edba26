"""What bounds a run and what steers it from outside."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from atoll import candidate, evaluation


@dataclass(slots=True)
class Spending:
    """What a run has used so far: steps issued, seconds since its start, the rest when a step is applied."""

    iterations: int = 0
    evaluations: int = 0
    cost: evaluation.Cost = evaluation.FREE
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Budget:
    """What a run may use; None means no limit.

    Attributes:
        iterations: Steps issued.
        evaluations: Candidates and drafts judged; never exceeded, since every step gets an allowance when it is issued.
        calls: Replies bought.
        tokens: Tokens in and out.
        usd: US dollars.
        seconds: Wall clock.
    """

    iterations: int | None = None
    evaluations: int | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def exhausted(self, spending: Spending) -> str | None:
        """Returns which limit is reached, in words, or None."""
        cost = spending.cost
        bought = {"calls": cost.calls, "tokens": cost.tokens_in + cost.tokens_out, "usd": cost.usd}
        for name in self.__slots__:
            limit, used = getattr(self, name), bought[name] if name in bought else getattr(spending, name)
            if limit is not None and used >= limit:
                return f"budget of {limit:g} {name} used"
        return None

    def raised(self, limits: Mapping[str, Any]) -> "Budget":
        """Returns a budget with some limits raised; none is ever lowered."""
        standing = {name: getattr(self, name) for name in limits}
        return replace(self, **{name: max(old, limits[name]) for name, old in standing.items() if old is not None})


UNLIMITED = Budget()


@dataclass(slots=True)
class Switch:
    """Stops a run from another thread; the first reason stays."""

    reason: str = ""

    def stop(self, reason: str) -> None:
        self.reason = self.reason or reason or "stopped"

    def is_set(self) -> bool:
        return bool(self.reason)


type Kind = Literal["pause", "resume", "stop", "set", "raise", "decide", "observe"]


class Command(NamedTuple):
    """One wish from outside, numbered in the order of arrival.

    data by kind: `stop` reason; `set` the settings that every later step is advised of; `raise` limits of the budget;
    `decide` candidate, content_hash, verdict, reason, by; `observe` island, candidate, evaluation.
    """

    number: int
    kind: Kind
    data: Mapping[str, Any] = candidate.NOTHING


class Inbox(Protocol):
    """The only way back into a run: polled when a step is issued, obeyed under the lock, recorded."""

    def read(self, after: int) -> Sequence[Command]:
        """Returns the commands with higher numbers than `after`, in order. Cheap: called up to 5 times a second."""


class Progress(NamedTuple):
    """Where a run stands, for stop rules."""

    applied: int
    best_score: float | None
    last_improved: int


type StopRule = Callable[[Progress], str | None]


def target(score: float) -> StopRule:
    """Stops once the best score reaches `score`."""
    return lambda now: f"score {score:g} reached" if now.best_score is not None and now.best_score >= score else None


def plateau(steps: int) -> StopRule:
    """Stops after `steps` steps without a new best."""
    return lambda now: f"no improvement in {steps} steps" if now.applied - now.last_improved >= steps else None

"""What bounds a run and what steers it from outside."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from atoll import candidate, evaluation


@dataclass(slots=True)
class Usage:
    """What a run has used so far: steps issued, seconds since its start, the rest when a step is applied."""

    iterations: int = 0
    evaluations: int = 0
    cost: evaluation.Cost = evaluation.ZERO_COST
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

    def find_exhausted_limit(self, usage: Usage) -> str | None:
        """Returns which limit is reached, in words, or None."""
        cost = usage.cost
        costs = {"calls": cost.calls, "tokens": cost.tokens_in + cost.tokens_out, "usd": cost.usd}
        for name in self.__slots__:
            limit, used = getattr(self, name), costs[name] if name in costs else getattr(usage, name)
            if limit is not None and used >= limit:
                return f"budget of {limit:g} {name} used"
        return None

    def with_raised_limits(self, limits: Mapping[str, Any]) -> "Budget":
        """Returns a budget with some limits raised; none is ever lowered."""
        current_limits = {name: getattr(self, name) for name in limits}
        return replace(
            self, **{name: max(old, limits[name]) for name, old in current_limits.items() if old is not None}
        )


UNLIMITED = Budget()


@dataclass(slots=True)
class StopSignal:
    """Stops a run from another thread; the first reason stays."""

    reason: str = ""

    def stop(self, reason: str) -> None:
        self.reason = self.reason or reason or "stopped"

    def is_set(self) -> bool:
        return bool(self.reason)


type CommandKind = Literal["pause", "resume", "stop", "set", "raise", "decide", "observe"]


class Command(NamedTuple):
    """One wish from outside, numbered in the order of arrival.

    data by kind: `stop` reason; `set` the settings that every later step is advised of; `raise` limits of the budget;
    `decide` candidate, content_hash, verdict, reason, by; `observe` island, candidate, evaluation.
    """

    number: int
    kind: CommandKind
    data: Mapping[str, Any] = candidate.EMPTY


class Inbox(Protocol):
    """The only way back into a run: polled when a step is issued, obeyed under the lock, recorded."""

    def read(self, after: int) -> Sequence[Command]:
        """Returns the commands with higher numbers than `after`, in order. Cheap: called up to 5 times a second."""


class RunProgress(NamedTuple):
    """Where a run stands, for stop rules."""

    applied_count: int
    best_score: float | None
    last_improved_at: int


type StopRule = Callable[[RunProgress], str | None]


def make_target_rule(score: float) -> StopRule:
    """Stops once the best score reaches `score`."""
    return lambda progress: (
        f"score {score:g} reached" if progress.best_score is not None and progress.best_score >= score else None
    )


def make_plateau_rule(iterations: int) -> StopRule:
    """Stops after `steps` steps without a new best."""
    return lambda progress: (
        f"no improvement in {iterations} steps"
        if progress.applied_count - progress.last_improved_at >= iterations
        else None
    )

"""Budgets, stop rules and commands of a run."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, Protocol

from atoll import candidate, evaluation


@dataclass(slots=True)
class Usage:
    """Usage of a run: iterations issued, seconds since the start; the rest is counted when iterations are applied."""

    iterations: int = 0
    evaluations: int = 0
    cost: evaluation.Cost = evaluation.ZERO_COST
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of a run; None means no limit.

    Attributes:
        iterations: Iterations issued.
        evaluations: Evaluated candidates and trials. Never exceeded: each issued iteration gets a maximum.
        calls: LLM calls; every request that is sent counts. Never exceeded, as `evaluations`.
        tokens: Tokens in and out.
        usd: US dollars.
        seconds: Wall-clock time. An iteration with several evaluations gets as many as the time left is enough for.
    """

    iterations: int | None = None
    evaluations: int | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None

    def find_exhausted_limit(self, usage: Usage) -> str | None:
        """Returns a description of the limit that is reached, or None."""
        costs = {
            "calls": usage.cost.calls,
            "tokens": usage.cost.tokens_in + usage.cost.tokens_out,
            "usd": usage.cost.usd,
        }
        for name in self.__slots__:
            limit, used = getattr(self, name), costs[name] if name in costs else getattr(usage, name)
            if limit is not None and used >= limit:
                return f"budget of {limit:g} {name} used"
        return None

    def with_raised_limits(self, limits: Mapping[str, Any]) -> "Budget":
        """Returns a budget with some limits raised, none lowered."""
        raised = {name: max(old, limits[name]) for name in limits if (old := getattr(self, name)) is not None}
        return replace(self, **raised)


UNLIMITED = Budget()


@dataclass(slots=True)
class StopSignal:
    """Stops a run from another thread; the first reason counts."""

    reason: str = ""

    def stop(self, reason: str) -> None:
        self.reason = self.reason or reason or "stopped"

    def is_set(self) -> bool:
        return bool(self.reason)


type CommandKind = Literal["pause", "resume", "stop", "set", "raise", "decide", "observe"]


class Command(NamedTuple):
    """One command to a run, numbered in the order of arrival.

    Data by kind: `stop` reason; `set` settings for later iterations; `raise` budget limits;
    `decide` candidate, content_hash, verdict, reason, by; `observe` island, candidate, evaluation.
    """

    number: int
    kind: CommandKind
    data: Mapping[str, Any] = candidate.EMPTY


class Inbox(Protocol):
    """Commands to a run: polled when an iteration is issued, carried out under the lock, recorded."""

    def read(self, after: int) -> Sequence[Command]:
        """Returns the commands after number `after`, in order. Must be cheap: called up to 5 times a second."""


class RunProgress(NamedTuple):
    """Progress of a run, for stop rules."""

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
    """Stops after `iterations` iterations without a new best."""

    def rule(progress: RunProgress) -> str | None:
        is_stale = progress.applied_count - progress.last_improved_at >= iterations
        return f"no improvement in {iterations} iterations" if is_stale else None

    return rule

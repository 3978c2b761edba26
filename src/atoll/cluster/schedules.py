"""Schedules: the order of islands, migrations and resets."""

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from random import Random
from typing import Literal

from atoll import function
from atoll.archipelago import Island, Migration, Reset

type Period = int | None  # in iterations or generations; None: never
type ResetRule = Callable[[Sequence[Island], Random], Sequence[Reset]]


def get_best_score(island: Island) -> float:
    """Returns the score of the best evaluation, which is comparable between islands."""
    evaluation = island.best_fn().evaluation
    return -float("inf") if evaluation is None or evaluation.score is None else evaluation.score


def reset_worst_half(*, noise: float = 0.0, founder: Literal["survivor", "best"] = "survivor") -> ResetRule:
    """Resets the worse half of the islands.

    Args:
        noise: Standard deviation of noise added to the scores; FunSearch uses 1e-6. With 0, only exact ties are
            broken at random.
        founder: "survivor": the best of a random surviving island (FunSearch); "best": the best of all islands.
    """

    def choose_resets(islands: Sequence[Island], rng: Random) -> Sequence[Reset]:
        order = sorted(islands, key=lambda island: (get_best_score(island) + noise * rng.gauss(), rng.random()))
        worst, survivors = order[: len(order) // 2], order[len(order) // 2 :]
        best = max(survivors, key=get_best_score)
        return [
            Reset(island.index, [(best if founder == "best" else rng.choice(survivors)).best_fn()])
            for island in sorted(worst, key=lambda island: island.index)
        ]

    return choose_resets


def select_best(island: Island) -> Sequence[function.Function]:
    return [island.best_fn()]


@dataclass(eq=False)
class RoundRobin:
    """Islands take turns, `block_size` iterations each, with periodic migrations and resets.

    Attributes:
        migrate_every: Iterations between migrations from each island to the next; None: never.
        reset_every: Iterations between resets; None: never.
        reset_seconds: Seconds between resets; None: never.
    """

    num_islands: int
    _: KW_ONLY
    block_size: int = 1
    migrate_every: Period = None
    reset_every: Period = None
    reset_seconds: float | None = None
    select_emigrants: Callable[[Island], Sequence[function.Function]] = select_best
    reset_rule: ResetRule = field(default_factory=reset_worst_half)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._last_reset = self.clock()

    @property
    def uses_clock(self) -> bool:
        return self.reset_seconds is not None

    def choose_island(self, iteration: int) -> int:
        return (iteration - 1) // self.block_size % self.num_islands

    def plan_actions(self, applied_count: int, islands: Sequence[Island], seed: str) -> Sequence[Migration | Reset]:
        actions: list[Migration | Reset] = []
        if len(islands) < 2:
            return actions
        if self.migrate_every and applied_count % self.migrate_every == 0:
            actions += [
                Migration(fn, (island.index + 1) % len(islands))
                for island in islands
                for fn in self.select_emigrants(island)
            ]
        if self._is_reset_due(applied_count):
            actions += self.reset_rule(islands, Random(seed))
        return actions

    def _is_reset_due(self, applied_count: int) -> bool:
        if self.reset_seconds is not None and self.clock() - self._last_reset >= self.reset_seconds:
            self._last_reset = self.clock()
            return True
        return bool(self.reset_every) and applied_count % (self.reset_every or 1) == 0


def make_generation_schedule(
    num_islands: int,
    iterations_per_island: int,
    *,
    migrate_every: Period = 1,
    reset_every: Period = None,
    reset_rule: ResetRule | None = None,
) -> RoundRobin:
    """Each generation gives every island `iterations_per_island` iterations in a row; periods count generations."""
    iterations = num_islands * iterations_per_island
    return RoundRobin(
        num_islands,
        block_size=iterations_per_island,
        migrate_every=migrate_every and migrate_every * iterations,
        reset_every=reset_every and reset_every * iterations,
        reset_rule=reset_rule or reset_worst_half(),
    )

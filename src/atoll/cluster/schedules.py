"""When islands take turns, exchange their best and are founded anew."""

import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from random import Random
from typing import Literal

from atoll import function
from atoll.archipelago import Island, Migrate, Reset

type Period = int | None  # in steps or generations; None: never
type Resets = Callable[[Sequence[Island], Random], Sequence[Reset]]


def score_of(island: Island) -> float:
    """Returns the best evaluation's score: one scale for all islands, whatever each of them ranks by."""
    found = island.best_fn().evaluation
    return -float("inf") if found is None or found.score is None else found.score


def reset_worst_half(*, noise: float = 0.0, founder: Literal["kept", "best"] = "kept") -> Resets:
    """Empties the worst half of the islands.

    Args:
        noise: Standard deviation added to the scores before ranking; FunSearch has 1e-6. Without it only exact ties
            are broken at random, so that small differences count.
        founder: "kept": each is founded with the best of an island drawn from the kept ones (FunSearch); "best": with
            the best of all islands (the seed).
    """

    def resets(islands: Sequence[Island], rng: Random) -> Sequence[Reset]:
        order = sorted(islands, key=lambda each: (score_of(each) + noise * rng.gauss(), rng.random()))
        doomed, kept = order[: len(order) // 2], order[len(order) // 2 :]
        best = max(kept, key=score_of)
        return [
            Reset(each.index, [(best if founder == "best" else rng.choice(kept)).best_fn()])
            for each in sorted(doomed, key=lambda each: each.index)
        ]

    return resets


def best_only(island: Island) -> Sequence[function.Function]:
    return [island.best_fn()]


@dataclass(eq=False)
class RoundRobin:
    """Islands take turns, `block` steps each; every so many steps the best swim on and the worst are reset.

    Attributes:
        migrate_every: Steps between migrations from each island to the next; None: never.
        reset_every: Steps between resets; None: never.
        reset_seconds: Seconds between resets by the clock; None: never.
    """

    num_islands: int
    _: KW_ONLY
    block: int = 1
    migrate_every: Period = None
    reset_every: Period = None
    reset_seconds: float | None = None
    emigrants: Callable[[Island], Sequence[function.Function]] = best_only
    resets: Resets = field(default_factory=reset_worst_half)
    clock: Callable[[], float] = time.monotonic

    def __post_init__(self) -> None:
        self._last_reset = self.clock()

    @property
    def uses_clock(self) -> bool:
        return self.reset_seconds is not None

    def island(self, step: int) -> int:
        return (step - 1) // self.block % self.num_islands

    def due(self, applied: int, islands: Sequence[Island], seed: str) -> Sequence[Migrate | Reset]:
        actions: list[Migrate | Reset] = []
        if len(islands) < 2:
            return actions
        if self.migrate_every and applied % self.migrate_every == 0:
            actions += [
                Migrate(fn, (island.index + 1) % len(islands)) for island in islands for fn in self.emigrants(island)
            ]
        if self._is_reset_due(applied):
            actions += self.resets(islands, Random(seed))
        return actions

    def _is_reset_due(self, applied: int) -> bool:
        if self.reset_seconds is not None and self.clock() - self._last_reset >= self.reset_seconds:
            self._last_reset = self.clock()
            return True
        return bool(self.reset_every) and applied % (self.reset_every or 1) == 0


def generations(
    num_islands: int,
    per_island: int,
    *,
    migrate_every: Period = 1,
    reset_every: Period = None,
    resets: Resets | None = None,
) -> RoundRobin:
    """Each generation gives every island `per_island` steps in a row; the periods count generations."""
    steps = num_islands * per_island
    migrate, reset = migrate_every and migrate_every * steps, reset_every and reset_every * steps
    worst = resets or reset_worst_half()
    return RoundRobin(num_islands, block=per_island, migrate_every=migrate, reset_every=reset, resets=worst)

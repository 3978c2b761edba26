"""What happens between islands when each may have another coordinator: functions travel through the store."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atoll import archipelago, cluster, function, store
from atoll.archipelago import Migrate, Reset
from atoll.cluster import records

LOOK_SECONDS = 0.5  # between looks for functions that come from others

type MakeFn = Callable[[Mapping[str, Any]], function.Function]


@dataclass(frozen=True, slots=True)
class Seen:
    """An island of somebody else, as far as one can see it: its best, as its owner told it last."""

    index: int
    best: Callable[[], function.Function]

    def best_fn(self) -> function.Function:
        return self.best()


class Voyages:
    """A ring's schedule for the islands of one coordinator.

    Its periods count the steps of all islands, so of some islands they are shorter. A function that swims to an island
    of somebody else is sent through the store with the step that let it go, and arrives with a step there. Who is reset
    is decided among all islands, and done to one's own.

    Args:
        ring: The schedule as the system made it.
        owned: The islands of this coordinator.
        written: Its journal.
        bests: Says what the owners of the others told of them last.
        clock: Seconds.

    Attributes:
        make_fn: Makes a function from plain data; the evolver's, set before it starts.
    """

    make_fn: MakeFn

    def __init__(
        self,
        ring: archipelago.Schedule | None,
        owned: frozenset[int],
        written: store.SharedJournal,
        bests: Callable[[], Mapping[int, str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert isinstance(ring, cluster.RoundRobin), "a session refuses to share anything else"
        share = len(owned) / ring.num_islands
        periods = {name: getattr(ring, name) for name in ("migrate_every", "reset_every")}
        own = {name: period and max(1, round(period * share)) for name, period in periods.items()}
        self._ring, self._owned, self._written, self._bests = replace(ring, **own), owned, written, bests
        self._clock, self._looked_at = clock, clock()

    @property
    def uses_clock(self) -> bool:
        return self._ring.uses_clock

    def island(self, step: int) -> int:
        return self._ring.island(step)

    def due(self, applied: int, islands: Sequence[archipelago.Island], seed: str) -> Sequence[Migrate | Reset]:
        actions: list[Migrate | Reset] = list(self._arrived())
        around: Any = [each if each.index in self._owned else self._seen(each) for each in islands]
        for action in self._ring.due(applied, around, seed):
            if isinstance(action, Reset):
                actions += [action] if action.island in self._owned else []
            elif (action.target - 1) % len(islands) not in self._owned:
                continue  # it starts from an island that its own coordinator sends it from
            elif action.target in self._owned:
                actions.append(action)
            else:
                self._written.send(action.target, records.settled_data(action.fn))
        return actions

    def _arrived(self) -> Sequence[Migrate]:
        if self._clock() - self._looked_at < LOOK_SECONDS:
            return ()
        self._looked_at = self._clock()
        return [Migrate(self.make_fn(each.data), each.target) for each in self._written.arrivals(self._owned)]

    def _seen(self, island: archipelago.Island) -> Seen:
        """Returns an island of somebody else; of one that has not told anything only the founder is known."""

        def best() -> function.Function:
            told = self._bests().get(island.index)
            return island.best_fn() if told is None else self.make_fn(json.loads(told))

        return Seen(island.index, best)

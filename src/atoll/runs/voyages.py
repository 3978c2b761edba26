"""What happens between islands when each may have another coordinator: functions travel through the store."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atoll import archipelago, cluster, function, store
from atoll.archipelago import Migration, Reset
from atoll.cluster import records

POLL_SECONDS = 0.5  # between looks for functions that come from others

type MakeFn = Callable[[Mapping[str, Any]], function.Function]


@dataclass(frozen=True, slots=True)
class RemoteIsland:
    """An island of somebody else, as far as one can see it: its best, as its owner told it last."""

    index: int
    load_best: Callable[[], function.Function]

    def best_fn(self) -> function.Function:
        return self.load_best()


class SharedSchedule:
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
        schedule: archipelago.Schedule | None,
        owned: frozenset[int],
        shared_journal: store.SharedJournal,
        bests: Callable[[], Mapping[int, str]],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        assert isinstance(schedule, cluster.RoundRobin), "a session refuses to share anything else"
        share = len(owned) / schedule.num_islands
        periods = {name: getattr(schedule, name) for name in ("migrate_every", "reset_every")}
        own_periods = {name: period and max(1, round(period * share)) for name, period in periods.items()}
        self._schedule, self._owned, self._journal, self._bests = replace(schedule, **own_periods), owned, shared_journal, bests
        self._clock, self._polled_at = clock, clock()

    @property
    def uses_clock(self) -> bool:
        return self._schedule.uses_clock

    def choose_island(self, iteration: int) -> int:
        return self._schedule.choose_island(iteration)

    def plan_actions(self, applied_count: int, islands: Sequence[archipelago.Island], seed: str) -> Sequence[Migration | Reset]:
        actions: list[Migration | Reset] = list(self._receive_migrants())
        visible_islands: Any = [island if island.index in self._owned else self._make_remote_island(island) for island in islands]
        for action in self._schedule.plan_actions(applied_count, visible_islands, seed):
            if isinstance(action, Reset):
                actions += [action] if action.island in self._owned else []
            elif (action.target - 1) % len(islands) not in self._owned:
                continue  # it starts from an island that its own coordinator sends it from
            elif action.target in self._owned:
                actions.append(action)
            else:
                self._journal.send(action.target, records.fn_to_data(action.fn))
        return actions

    def _receive_migrants(self) -> Sequence[Migration]:
        if self._clock() - self._polled_at < POLL_SECONDS:
            return ()
        self._polled_at = self._clock()
        return [Migration(self.make_fn(migrant.data), migrant.target) for migrant in self._journal.read_arrivals(self._owned)]

    def _make_remote_island(self, island: archipelago.Island) -> RemoteIsland:
        """Returns an island of somebody else; of one that has not told anything only the founder is known."""

        def best() -> function.Function:
            best_data = self._bests().get(island.index)
            return island.best_fn() if best_data is None else self.make_fn(json.loads(best_data))

        return RemoteIsland(island.index, best)

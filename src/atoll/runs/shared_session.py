"""Session of one coordinator of a shared run, over the islands that it has leases on.

Migrants to islands of other coordinators pass through the store.
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

from atoll import archipelago, cluster, control, errors, function, journal, store, system
from atoll.archipelago import Migration, Reset
from atoll.cluster import records
from atoll.evaluation import Cost
from atoll.runs.session import IterationOrder, Session

POLL_SECONDS = 0.5  # between reads of migrants from other coordinators

type MakeFn = Callable[[Mapping[str, Any]], function.Function]


@dataclass(frozen=True, slots=True)
class RemoteIsland:
    """An island of another coordinator, known by its last published best candidate."""

    index: int
    load_best: Callable[[], function.Function]

    def best_fn(self) -> function.Function:
        return self.load_best()


class SharedSchedule:
    """Schedule for the islands of one coordinator.

    The periods of the system's schedule count iterations of all islands, so they shrink with the share. A migrant to
    another coordinator is written with the iteration that sends it, and arrives with an iteration there. All islands
    are compared to choose those to reset; each coordinator resets its own.

    Args:
        schedule: The schedule that the system built.
        owned: Islands of this coordinator.
        bests: Returns the best candidates that other coordinators published, by island.

    Attributes:
        make_fn: Makes a function from plain data; set before the start.
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
        assert isinstance(schedule, cluster.RoundRobin), "SharedSession checks this"
        share = len(owned) / schedule.num_islands
        periods = {name: getattr(schedule, name) for name in ("migrate_every", "reset_every")}
        own_periods = {name: period and max(1, round(period * share)) for name, period in periods.items()}
        self._schedule = replace(schedule, **own_periods)
        self._owned, self._journal, self._bests = owned, shared_journal, bests
        self._clock, self._polled_at = clock, clock()

    @property
    def uses_clock(self) -> bool:
        return self._schedule.uses_clock

    def choose_island(self, iteration: int) -> int:
        return self._schedule.choose_island(iteration)

    def plan_actions(
        self, applied_count: int, islands: Sequence[archipelago.Island], seed: str
    ) -> Sequence[Migration | Reset]:
        actions: list[Migration | Reset] = list(self._receive_migrants())
        visible_islands: Any = [
            island if island.index in self._owned else self._make_remote_island(island) for island in islands
        ]
        for action in self._schedule.plan_actions(applied_count, visible_islands, seed):
            if isinstance(action, Reset):
                actions += [action] if action.island in self._owned else []
            elif (action.target - 1) % len(islands) not in self._owned:
                continue  # another coordinator sends it
            elif action.target in self._owned:
                actions.append(action)
            else:
                self._journal.send(action.target, records.fn_to_data(action.fn))
        return actions

    def _receive_migrants(self) -> Sequence[Migration]:
        if self._clock() - self._polled_at < POLL_SECONDS:
            return ()
        self._polled_at = self._clock()
        arrivals = self._journal.read_arrivals(self._owned)
        return [Migration(self.make_fn(migrant.data), migrant.target) for migrant in arrivals]

    def _make_remote_island(self, island: archipelago.Island) -> RemoteIsland:
        """Returns an island of another coordinator; its best is the initial candidate until one is published."""

        def load_best() -> function.Function:
            best_data = self._bests().get(island.index)
            return island.best_fn() if best_data is None else self.make_fn(json.loads(best_data))

        return RemoteIsland(island.index, load_best)


ISLANDS_MOVED = "islands change hands"  # stored as the reason of an end


class IslandShare:
    """The islands of a coordinator until the distribution changes; takes the place of a run lock."""

    def __init__(self, leases: store.Leases, bests: Mapping[int, str]) -> None:
        self.leases, self.bests = leases, bests
        self.owned = frozenset(island for island in leases.tokens if island >= 0)
        self.journal = store.SharedJournal(leases)

    def release(self) -> None:
        """Does nothing: the coordinator releases the leases, or they expire."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class SharedEvolver(system.SystemEvolver):
    """Issues only iterations of its own islands, under the same numbers as in an unshared run.

    The usage of all coordinators counts against the budget.
    """

    def __init__(
        self,
        config: cluster.EvolverConfig,
        report: Mapping[str, Any],
        built_system: system.BuiltSystem,
        share: IslandShare,
    ) -> None:
        schedule = SharedSchedule(built_system.config.schedule, share.owned, share.journal, lambda: share.bests)
        super().__init__(replace(config, schedule=schedule), report, built_system.close, built_system.use_profiler)
        self._share, self._next_steps = share, dict[int, int]()
        schedule.make_fn = self._state.make_fn

    def export_bests(self) -> Mapping[int, str]:
        """Returns the best candidate of each of its islands as JSON, for the other coordinators."""
        owned, lock = sorted(self._share.owned), self.lock()
        if not lock.acquire(blocking=False):  # busy or recovering: renewing the leases cannot wait
            return {}
        try:
            best_functions = [self._state.islands[index].best_fn() for index in owned] if self._is_loaded else []
        finally:
            lock.release()
        return {index: json.dumps(records.fn_to_data(fn)) for index, fn in zip(owned, best_functions, strict=False)}

    def _load(self) -> Sequence[journal.Record]:
        loaded = super()._load()
        last_steps = self._share.journal.get_last_steps()
        self._next_steps = {index: self._find_next_step(last_steps.get(index, 0), index) for index in self._share.owned}
        self._last_iteration = self._get_lowest_step() - 1
        return loaded

    def _issue(self, island: archipelago.Island, *limits: int | None) -> journal.Record:
        record = super()._issue(island, *limits)  # type: ignore[arg-type]  # the population's own
        self._next_steps[record.island] = self._find_next_step(record.step, record.island)
        self._last_iteration = self._get_lowest_step() - 1
        return record

    def _get_lowest_step(self) -> int:
        return min(self._next_steps.values())

    def _find_next_step(self, step: int, island: int) -> int:
        """Returns the first iteration of an island after an iteration."""
        step += 1
        while self._schedule.choose_island(step) != island:
            step += 1
        return step

    def _compute_max_evaluations(self) -> int | None:
        """Returns a share of the remaining evaluations. Those in flight at other coordinators are unknown here."""
        promised, limit = super()._compute_max_evaluations(), self._control_state.budget.evaluations
        if promised in (None, 0) or limit is None:
            return promised
        in_flight = sum(pending.max_evaluations or 0 for pending in self._in_flight.values())
        remaining = limit - self._share.journal.usage.evaluations - in_flight
        return max(1, min(promised or 1, remaining // self._window)) if remaining > 0 else 0

    def _get_stop_reason(self) -> str | None:
        reason = super()._get_stop_reason()
        if reason:
            return reason
        usage = self._share.journal.usage
        cost = Cost(tokens_in=usage.tokens, usd=usage.usd, calls=usage.calls)
        seconds = self.usage.seconds
        all_used = control.Usage(self._last_iteration, usage.evaluations, cost, seconds)
        return usage.reason or self._control_state.budget.find_exhausted_limit(all_used)


class _OwnCommandInbox:
    """Commands of a run, without those for islands of other coordinators; first a pause that still holds.

    An evolver forgets a pause when it ends, and here one ends whenever islands move.
    """

    def __init__(self, inbox: control.Inbox, share: IslandShare, schedule: archipelago.Schedule) -> None:
        self._inbox, self._share, self._schedule = inbox, share, schedule
        self._is_new = True

    def read(self, after: int) -> Sequence[control.Command]:
        commands = [command for command in self._inbox.read(after) if self._is_own(command)]
        pause, self._is_new = self._find_pause(after) if self._is_new else (), False
        return [*pause, *commands]

    def _find_pause(self, after: int) -> Sequence[control.Command]:
        earlier = [command for command in self._inbox.read(0) if command.number <= after]
        pauses = [command for command in earlier if command.kind in ("pause", "resume")]
        return [command._replace(number=after) for command in pauses[-1:] if command.kind == "pause"]

    def _is_own(self, command: control.Command) -> bool:
        match command.kind:
            case "observe":
                return command.data.get("island") in self._share.owned
            case "decide":
                step = str(command.data.get("candidate", "")).partition(".")[0]
                return step.isdigit() and self._schedule.choose_island(max(1, int(step))) in self._share.owned
        return True


class SharedSession(Session):
    """A session over the islands of a coordinator. The first session of a new run creates the leases.

    Args:
        owner: Name of the coordinator.
        seconds: Duration of a lease.
        leases: Leases of the coordinator; None for a new run.
        bests: Best candidates of other islands as JSON.
        options: Further options of `Session`.
    """

    def __init__(
        self,
        *args: Any,
        owner: str,
        seconds: float,
        leases: store.Leases | None = None,
        bests: Mapping[int, str],
        **options: Any,
    ) -> None:
        self._owner, self._lease_seconds, self._leases, self._bests = owner, seconds, leases, bests
        super().__init__(*args, extra_config={"shared": "yes"}, **options)

    def _choose_order(self, run_id: str | None, built_system: system.BuiltSystem) -> IterationOrder:
        settings = self.run_config.run
        if settings.deterministic:
            raise errors.SetupError("A shared run depends on timing. Leave --deterministic out.")
        if not isinstance(built_system.config.schedule, cluster.RoundRobin):
            raise errors.SetupError("The islands of this system cannot be shared. Leave --shared out.")
        return IterationOrder(is_ordered=False, window=settings.window or settings.workers)

    def _lock_run(self, built_system: system.BuiltSystem) -> store.RunLock:
        if self._leases is None:
            num_islands = built_system.config.island_config.num_islands
            self._leases = self._store.leases(self.run_id, self._owner, self._lease_seconds)
            self._leases.create_rows(num_islands)
            self._leases.renew()
            self._leases.acquire(range(-1, num_islands))
        self.share = IslandShare(self._leases, self._bests)
        return self.share

    def _open_journal(self) -> journal.Journal:
        return self.share.journal

    def _make_evolver(
        self, evolver_config: cluster.EvolverConfig, report: Mapping[str, Any], built_system: system.BuiltSystem
    ) -> SharedEvolver:
        islands = ", ".join(map(str, sorted(self.share.owned)))
        share_report = {"islands of this coordinator": f"{islands} of {evolver_config.island_config.num_islands}"}
        schedule = built_system.config.schedule or cluster.RoundRobin(1)
        commands = _OwnCommandInbox(self._store.inbox(self.run_id), self.share, schedule)
        own_config = replace(evolver_config, inbox=commands)
        return SharedEvolver(own_config, {**report, **share_report}, built_system, self.share)

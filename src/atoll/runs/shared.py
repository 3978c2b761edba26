"""One coordinator's part of a run: an evolver over the islands that it holds leases on."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from atoll import archipelago, cluster, control, errors, journal, store, system
from atoll.cluster import records
from atoll.evaluation import Cost
from atoll.runs.session import Session
from atoll.runs.voyages import Voyages

MOVED = "islands change hands"


class Share:
    """The islands that a coordinator works on between two changes; stands where a run of one's own has its claim."""

    def __init__(self, held: store.Leases, bests: Mapping[int, str]) -> None:
        self.held, self.bests = held, bests
        self.owned = frozenset(island for island in held.tokens if island >= 0)
        self.journal = store.SharedJournal(held)

    def release(self) -> None:
        """Does nothing: leases are given back by the coordinator, or run out."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class SharedEvolver(system.Evolver):
    """Issues the steps of its own islands and leaves out those of others; every step has the number that it has anyway.

    What all coordinators together have used counts against the budget.
    """

    def __init__(
        self, config: cluster.EvolverConfig, said: Mapping[str, Any], built: system.Built, share: Share
    ) -> None:
        voyages = Voyages(built.config.schedule, share.owned, share.journal, lambda: share.bests)
        super().__init__(replace(config, schedule=voyages), said, built.close, built.use_profiler)
        self._share, self._next_steps = share, dict[int, int]()
        voyages.make_fn = self._population.make_fn

    def bests(self) -> Mapping[int, str]:
        """Returns the best of each of its islands as JSON, for the others to see."""
        owned, turn = sorted(self._share.owned), self.still()
        if not turn.acquire(blocking=False):  # it is at work, or folds its journal: the leases cannot wait for that
            return {}
        try:
            own = [self._population.islands[index].best_fn() for index in owned] if self._is_open else []
        finally:
            turn.release()
        return {index: json.dumps(records.settled_data(fn)) for index, fn in zip(owned, own, strict=False)}

    def _load(self) -> Sequence[journal.Record]:
        written = super()._load()
        last = self._share.journal.last_steps()
        self._next_steps = {index: self._after(last.get(index, 0), index) for index in self._share.owned}
        self._step = self._lowest() - 1
        return written

    def _issue(self, island: archipelago.Island, allowance: int | None) -> journal.Record:
        record = super()._issue(island, allowance)  # type: ignore[arg-type]  # the population's own
        self._next_steps[record.island] = self._after(record.step, record.island)
        self._step = self._lowest() - 1
        return record

    def _lowest(self) -> int:
        return min(self._next_steps.values())

    def _after(self, step: int, island: int) -> int:
        """Returns the first step of an island behind a step."""
        step += 1
        while self._schedule.island(step) != island:
            step += 1
        return step

    def _allowance(self) -> int | None:
        """Returns a share of what is left of the evaluations of all; what others have in flight is not known here."""
        promised, limit = super()._allowance(), self._steering.budget.evaluations
        if promised in (None, 0) or limit is None:
            return promised
        flying = sum(ticket.allowance or 0 for ticket in self._flying.values())
        left = limit - self._share.journal.totals.evaluations - flying
        return max(1, min(promised or 1, left // self._window)) if left > 0 else 0

    def _why_stop(self) -> str | None:
        found = super()._why_stop()
        if found:
            return found
        used = self._share.journal.totals
        cost = Cost(tokens_in=used.tokens, usd=used.usd, calls=used.calls)
        seconds = self.spending.seconds
        all_used = control.Spending(self._step, used.evaluations, cost, seconds)
        return used.reason or self._steering.budget.exhausted(all_used)


class _OwnCommands:
    """The commands of a run without those about islands of others; first of all the pause that it may be in.

    An evolver forgets a pause when it ends, and here one ends whenever islands change hands.
    """

    def __init__(self, inbox: control.Inbox, share: Share, ring: archipelago.Schedule) -> None:
        self._inbox, self._share, self._ring = inbox, share, ring
        self._is_new = True

    def read(self, after: int) -> Sequence[control.Command]:
        found = [each for each in self._inbox.read(after) if self._concerns(each)]
        before, self._is_new = self._pause(after) if self._is_new else (), False
        return [*before, *found]

    def _pause(self, after: int) -> Sequence[control.Command]:
        brakes = [each for each in self._inbox.read(0) if each.number <= after and each.kind in ("pause", "resume")]
        return [each._replace(number=after) for each in brakes[-1:] if each.kind == "pause"]

    def _concerns(self, command: control.Command) -> bool:
        match command.kind:
            case "observe":
                return command.data.get("island") in self._share.owned
            case "decide":
                step = str(command.data.get("candidate", "")).partition(".")[0]
                return step.isdigit() and self._ring.island(max(1, int(step))) in self._share.owned
        return True


class SharedSession(Session):
    """A session over the islands that a coordinator holds; the first one of a new run also makes the leases.

    Args:
        owner: The coordinator's name.
        seconds: How long a lease lasts.
        held: Its leases; None: of a run that begins.
        bests: The best of the islands of others.
        rest: As of any session.
    """

    def __init__(
        self,
        *args: Any,
        owner: str,
        seconds: float,
        held: store.Leases | None = None,
        bests: Mapping[int, str],
        **rest: Any,
    ) -> None:
        self._owner, self._lease_seconds, self._held, self._bests = owner, seconds, held, bests
        super().__init__(*args, link={"shared": "yes"}, **rest)

    def _order(self, run: str | None, built: system.Built) -> Any:
        if self.plan.run.deterministic:
            raise errors.SetupError("A run of several coordinators depends on timing: leave --deterministic out.")
        if not isinstance(built.config.schedule, cluster.RoundRobin):
            raise errors.SetupError("The islands of this system cannot be shared: run it with one coordinator.")
        found = super()._order(run, built)
        return found._replace(is_ordered=False, window=self.plan.run.window or self.plan.run.workers)

    def _claimed(self, built: system.Built) -> store.Claim:
        if self._held is None:
            num_islands = built.config.island_config.num_islands
            self._held = self._kept.leases(self.run, self._owner, self._lease_seconds)
            self._held.open(num_islands)
            self._held.beat()
            self._held.take(range(-1, num_islands))
        self.share = Share(self._held, self._bests)
        return self.share

    def _journal(self) -> journal.Journal:
        return self.share.journal

    def _evolver(self, made: cluster.EvolverConfig, said: Mapping[str, Any], built: system.Built) -> SharedEvolver:
        islands = ", ".join(map(str, sorted(self.share.owned)))
        others = {"islands led here": f"{islands} of {made.island_config.num_islands}"}
        commands = _OwnCommands(self._kept.inbox(self.run), self.share, built.config.schedule or cluster.RoundRobin(1))
        return SharedEvolver(replace(made, inbox=commands), {**said, **others}, built, self.share)

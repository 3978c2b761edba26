"""A coordinator among others: takes its share of a run's islands, works on them, and takes over those of the dead."""

import contextlib
import math
import os
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Event, Thread
from typing import Any

from atoll import config, control, errors, store
from atoll.runs import limits, place
from atoll.runs.session import NO_SECTIONS, TURN_SECONDS, MakeLLM
from atoll.runs.shared import MOVED, SharedEvolver, SharedSession

LEASE_SECONDS = 15.0
WAIT_SECONDS = 0.2  # between looks of a coordinator that has no island


class Coordinator:
    """Leads a part of a run's islands until the whole run is over.

    Its islands are those that it holds leases on. When the members change, so do the shares: it gives back what is too
    much, and takes what is free or was led by one that fell silent, at the last stored state.

    Args:
        kept: Where the run is.
        plan: What it is made from.
        run: A shared run to join; None: a new one.
        budget: What the run may use in all; by default the plan's.
        model: Makes the model that the plan names.
        allowed: What whoever starts it takes upon themselves.
        lease_seconds: How long the islands of a coordinator that is silent stay its own.
        say: Told what happens, a line each.

    Attributes:
        run: The run's id, once it is there.
        name: What the others know this coordinator by.
    """

    def __init__(
        self,
        kept: store.Store,
        plan: config.Plan,
        *,
        run: str | None = None,
        budget: control.Budget | None = None,
        model: MakeLLM | None = None,
        allowed: place.Allowed = place.NOTHING,
        lease_seconds: float = LEASE_SECONDS,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._kept, self._plan, self._seconds, self._say = kept, plan, lease_seconds, say
        self._parts: dict[str, Any] = {"budget": budget, "model": model, "allowed": allowed}
        self.name = f"{socket.gethostname()}:{os.getpid()}/{os.urandom(2).hex()}"  # a container's number comes again
        self._session: SharedSession | None = None
        if run is None:
            self._session = self._open(None, None, {})
            assert self._session._held is not None
            self._held, self.run = self._session._held, self._session.run
        else:
            self.run, self._held = run, kept.leases(run, self.name, lease_seconds)
        self._pulse = _Pulse(self._held, self._bests)
        limit = (budget or plan.budget()).seconds
        self._deadline = math.inf if limit is None else time.monotonic() + limit

    def go(self, on_turn: Callable[[], None] = lambda: None) -> str:
        """Works to the end of the run and returns why it ended.

        Raises:
            RunFailed: It ended before its time; what was written is saved.
            SetupError: The set-up does not fit the run.
        """
        reason = ""
        try:
            with self._pulse:
                while part := self._session or self._next(on_turn):
                    reason = self._lead(part, on_turn)
                reason = self._pulse.latest.reason or reason or "its islands were led by others"
                if self._pulse.latest.reason or not self._pulse.latest.num_open:
                    with contextlib.suppress(errors.Conflict):  # another one was first
                        store.SharedJournal(self._held).write_end(reason)
        finally:
            self._held.leave()
        return reason

    def _open(self, run: str | None, held: store.Leases | None, bests: Mapping[int, str]) -> SharedSession:
        mine: dict[str, Any] = {"owner": self.name, "seconds": self._seconds, "held": held, "bests": bests}
        return SharedSession(self._kept, self._plan, run=run, **mine, **self._parts)

    def _bests(self) -> Mapping[int, str]:
        evolver = self._session.evolver if self._session else None
        return evolver.bests() if isinstance(evolver, SharedEvolver) else {}

    def _next(self, on_turn: Callable[[], None]) -> SharedSession | None:
        """Waits for islands; None: there is nothing left to do."""
        while True:
            standing = self._pulse.beat()
            if standing.reason or not standing.num_open:
                return None
            if self._is_founded() or self._held.take([-1]):
                self._held.take(standing.free[: standing.fair - len(standing.owned)])
                if any(island >= 0 for island in self._held.tokens):
                    self._session = self._open(self.run, self._held, standing.bests)
                    return self._session
            time.sleep(WAIT_SECONDS)
            on_turn()

    def _is_founded(self) -> bool:
        return any(True for _ in self._kept.journal(self.run).of_kind("founded"))

    def _lead(self, part: SharedSession, on_turn: Callable[[], None]) -> str:
        """Evolves until the islands change hands or are done; returns the reason."""
        owned = part.share.owned
        self._say(f"{self.name} leads {_told(owned)} of run {self.run}")
        evolver = part.evolver
        with part:
            try:
                evolver.start()
                while not evolver.reason:
                    time.sleep(TURN_SECONDS)
                    on_turn()
                    part.share.bests = self._pulse.latest.bests
                    if time.monotonic() >= self._deadline:
                        evolver.stop("budget of seconds used")
                    if self._has_moved(owned):
                        evolver.stop(MOVED)
                evolver.join()
            except errors.JournalFailed as error:
                if not isinstance(error.__cause__, errors.Conflict):
                    raise
                self._say(f"{self.name} lost an island to another coordinator")
            except KeyboardInterrupt:
                evolver.stop("interrupted")
                raise
        self._session = None
        return self._settle(owned, evolver.reason)

    def _settle(self, owned: frozenset[int], reason: str) -> str:
        """Gives back what is done, or too much."""
        standing = self._pulse.beat()
        if reason == MOVED or reason.startswith("failed: The journal"):
            reason = self._told_to_stop()
            if not reason:
                surplus = sorted(standing.owned)[standing.fair :]
                self._held.release(surplus)
                return ""
        self._held.release(owned, done=True)
        if not reason.startswith("budget"):
            self._held.end(reason)
        self._pulse.beat()
        return reason

    def _told_to_stop(self) -> str:
        """Returns why somebody stopped the run, if so: an evolver that reads it may be ending for another reason."""
        told = self._kept.journal(self.run).of_kind("controlled")
        orders = (record.data for record in told if record.data["kind"] == "stop")
        return next((str(each["data"].get("reason", "stopped")) for each in orders), "")

    def _has_moved(self, owned: frozenset[int]) -> bool:
        now = self._pulse.latest
        is_short = len(now.owned) < now.fair and bool(now.free)
        return bool(owned - now.owned) or len(now.owned) > now.fair or is_short or bool(now.reason)


def join(kept: store.Store, run: str, changes: Sequence[config.Sections] = (), **rest: Any) -> Coordinator:
    """Returns one more coordinator of a run that is shared.

    Args:
        kept: Where the run is.
        run: Its id.
        changes: What is different here: workers, the model's settings, the executor.
        rest: As of any coordinator.

    Raises:
        NotFound: There is no such run.
        SetupError: It is not shared, its task is not on this machine, or the changes are wrong.
    """
    stored = kept.run(run).config
    if "shared" not in stored:
        raise errors.SetupError(
            f"Run {run} has one coordinator: begin one that others may join with 'atoll run TASK --shared'."
        )
    if not Path(stored["folder"]).is_dir():
        raise errors.SetupError(f"The task of run {run} is not on this machine: put it at {stored['folder']}.")
    limits.check_changes(changes)
    shared = limits.LIMITS.intersection(key for layer in changes for key in layer.get("run", {}))
    if shared:
        raise errors.SetupError(f"run.{min(shared)} is what all coordinators of the run share, and stays as it began.")
    sections = {name: value for name, value in stored.items() if name not in NO_SECTIONS}
    return Coordinator(kept, config.Plan.from_data(sections, changes), run=run, **rest)


class _Pulse:
    """Renews the leases in a thread of its own, so that no long step lets them run out."""

    def __init__(self, held: store.Leases, bests: Callable[[], Mapping[int, str]]) -> None:
        self._held, self._bests, self._over = held, bests, Event()
        self.latest = held.beat()

    def beat(self) -> store.Standing:
        self.latest = self._held.beat(self._bests())
        return self.latest

    def __enter__(self) -> "_Pulse":
        self._thread = Thread(target=self._run, name="atoll-pulse", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *ended: object) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._over.wait(self._held.seconds / 4):
            errors.attempt(self.beat)  # a store that is away for a moment: the leases hold a while, or are lost


def _told(islands: frozenset[int]) -> str:
    names = ", ".join(map(str, sorted(islands)))
    return f"island {names}" if len(islands) == 1 else f"islands {names}"

"""One coordinator of a shared run: runs its share of the islands and takes over those of dead coordinators."""

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
from atoll.runs import executor_config, limits
from atoll.runs.limits import NON_SECTION_KEYS
from atoll.runs.run_llm import LLMFactory
from atoll.runs.shared_session import ISLANDS_MOVED, SharedEvolver, SharedSession

LEASE_SECONDS = 15.0
WAIT_SECONDS = 0.2  # between polls of a coordinator without islands


class Coordinator:
    """Runs a share of a run's islands until the whole run has ended.

    It runs the islands that it has leases on. When a coordinator joins or dies, the shares change: it releases islands
    above its share, and takes free islands at their last stored state.

    Args:
        run_id: The shared run to join; None creates a new one.
        budget: Budget of the whole run; by default that of the configuration.
        llm_factory: Makes the LLM; by default the one that the configuration names.
        allowed: Safety checks that the user waives for this start.
        lease_seconds: Seconds until another coordinator takes over the islands of a silent one.
        say: Called with each progress message.

    Attributes:
        name: Unique name of this coordinator.
    """

    def __init__(
        self,
        run_store: store.Store,
        run_config: config.RunConfig,
        *,
        run_id: str | None = None,
        budget: control.Budget | None = None,
        llm_factory: LLMFactory | None = None,
        allowed: executor_config.UnsafeOptions = executor_config.SAFE_OPTIONS,
        lease_seconds: float = LEASE_SECONDS,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._store, self._run_config, self._lease_seconds, self._say = run_store, run_config, lease_seconds, say
        self._session_options: dict[str, Any] = {"budget": budget, "llm_factory": llm_factory, "allowed": allowed}
        self.name = f"{socket.gethostname()}:{os.getpid()}/{os.urandom(2).hex()}"  # containers reuse process ids
        self._session: SharedSession | None = None
        if run_id is None:
            self._session = self._open_session(None, None, {})
            assert self._session._leases is not None
            self._leases, self.run_id = self._session._leases, self._session.run_id
        else:
            self.run_id, self._leases = run_id, run_store.leases(run_id, self.name, lease_seconds)
        self._renewer = _LeaseRenewer(self._leases, self._bests)
        limit = (budget or run_config.get_budget()).seconds
        self._deadline = math.inf if limit is None else time.monotonic() + limit

    def run(self, on_poll: Callable[[], None] = lambda: None) -> str:
        """Runs until the run has ended, and returns the reason.

        Raises:
            RunFailed: The run failed. Everything until then is saved.
            SetupError: The configuration does not fit the run.
        """
        reason = ""
        try:
            with self._renewer:
                while session := self._session or self._wait_for_islands(on_poll):
                    reason = self._run_session(session, on_poll)
                reason = self._renewer.status.reason or reason or "other coordinators ran its islands"
                if self._renewer.status.reason or not self._renewer.status.num_open:
                    with contextlib.suppress(errors.Conflict):  # another coordinator was first
                        store.SharedJournal(self._leases).write_end(reason)
        finally:
            self._leases.leave()
        return reason

    def _open_session(self, run_id: str | None, leases: store.Leases | None, bests: Mapping[int, str]) -> SharedSession:
        options: dict[str, Any] = {"owner": self.name, "seconds": self._lease_seconds, "leases": leases, "bests": bests}
        return SharedSession(self._store, self._run_config, run_id=run_id, **options, **self._session_options)

    def _bests(self) -> Mapping[int, str]:
        evolver = self._session.evolver if self._session else None
        return evolver.export_bests() if isinstance(evolver, SharedEvolver) else {}

    def _wait_for_islands(self, on_poll: Callable[[], None]) -> SharedSession | None:
        """Waits for islands; None if the run has ended."""
        while True:
            status = self._renewer.renew()
            if status.reason or not status.num_open:
                return None
            if self._has_initial() or self._leases.acquire([-1]):
                self._leases.acquire(status.free[: status.fair_share - len(status.owned)])
                if any(island >= 0 for island in self._leases.tokens):
                    self._session = self._open_session(self.run_id, self._leases, status.bests)
                    return self._session
            time.sleep(WAIT_SECONDS)
            on_poll()

    def _has_initial(self) -> bool:
        return any(True for _ in self._store.journal(self.run_id).read_kinds("founded"))

    def _run_session(self, session: SharedSession, on_poll: Callable[[], None]) -> str:
        """Runs until the islands are done or their distribution changes; returns the reason."""
        owned, evolver = session.share.owned, session.evolver
        self._say(f"{self.name} runs {_format_islands(owned)} of run {self.run_id}")

        def poll() -> None:
            on_poll()
            session.share.bests = self._renewer.status.bests
            if time.monotonic() >= self._deadline:
                evolver.stop("budget of seconds used")
            if self._has_changed(owned):
                evolver.stop(ISLANDS_MOVED)

        with session:
            try:
                session.run(poll)
            except errors.JournalFailed as error:
                if not isinstance(error.__cause__, errors.Conflict):
                    raise
                self._say(f"{self.name} lost an island to another coordinator")
            except KeyboardInterrupt:
                evolver.stop("interrupted")
                raise
        self._session = None
        return self._release_islands(owned, evolver.reason)

    def _release_islands(self, owned: frozenset[int], reason: str) -> str:
        """Releases finished islands, or those above the fair share."""
        status = self._renewer.renew()
        if reason == ISLANDS_MOVED or reason.startswith("failed: The journal"):
            reason = self._find_stop_reason()
            if not reason:
                surplus = sorted(status.owned)[status.fair_share :]
                self._leases.release(surplus)
                return ""
        self._leases.release(owned, is_done=True)
        if not reason.startswith("budget"):
            self._leases.end_run(reason)
        self._renewer.renew()
        return reason

    def _find_stop_reason(self) -> str:
        """Returns the reason of a stop command; empty without one. The evolver may have ended for another reason."""
        records = self._store.journal(self.run_id).read_kinds("controlled")
        commands = (record.data for record in records if record.data["kind"] == "stop")
        return next((str(command["data"].get("reason", "stopped")) for command in commands), "")

    def _has_changed(self, owned: frozenset[int]) -> bool:
        status = self._renewer.status
        has_too_few = len(status.owned) < status.fair_share and bool(status.free)
        return bool(owned - status.owned) or len(status.owned) > status.fair_share or has_too_few or bool(status.reason)


def join(run_store: store.Store, run_id: str, changes: Sequence[config.Sections] = (), **options: Any) -> Coordinator:
    """Returns another coordinator of a shared run.

    Args:
        changes: Settings of this coordinator: workers, LLM settings, executor.
        options: Further options of `Coordinator`.

    Raises:
        NotFound: The run does not exist.
        SetupError: The run is not shared, its task is not on this machine, or the changes are invalid.
    """
    stored_config = run_store.get_run(run_id).config
    if "shared" not in stored_config:
        raise errors.SetupError(
            f"Run {run_id} is not shared. Start a run that others can join with 'atoll run TASK --shared'."
        )
    if not Path(stored_config["folder"]).is_dir():
        raise errors.SetupError(
            f"The task of run {run_id} is not on this machine. Copy it to {stored_config['folder']}."
        )
    limits.check_changes(changes)
    shared_limits = limits.LIMIT_KEYS.intersection(key for layer in changes for key in layer.get("run", {}))
    if shared_limits:
        raise errors.SetupError(
            f"run.{min(shared_limits)} is shared by all coordinators and cannot change. Leave it out."
        )
    sections = {name: value for name, value in stored_config.items() if name not in NON_SECTION_KEYS}
    return Coordinator(run_store, config.RunConfig.from_data(sections, changes), run_id=run_id, **options)


class _LeaseRenewer:
    """Renews the leases in its own thread, so that they outlast long iterations."""

    def __init__(self, leases: store.Leases, bests: Callable[[], Mapping[int, str]]) -> None:
        self._leases, self._bests, self._stopped = leases, bests, Event()
        self.status = leases.renew()

    def renew(self) -> store.LeaseStatus:
        self.status = self._leases.renew(self._bests())
        return self.status

    def __enter__(self) -> "_LeaseRenewer":
        self._thread = Thread(target=self._run, name="atoll-pulse", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(self._leases.lease_seconds / 4):
            errors.capture(self.renew)  # the leases outlast a short outage of the store


def _format_islands(islands: frozenset[int]) -> str:
    names = ", ".join(map(str, sorted(islands)))
    return f"island {names}" if len(islands) == 1 else f"islands {names}"

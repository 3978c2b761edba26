"""Live channel between a long iteration and its viewers, through the store."""

import time
from collections.abc import Callable, Sequence

from atoll import store, system
from atoll.candidate import JSON
from atoll.store import event_streams

POLL_SECONDS = 0.1  # minimum between two reads of the store
WATCHER_SECONDS = 30  # a viewer counts for this time after its last sign of life
WATCHERS_STREAM, SHOWN_PREFIX = "watchers", "shown/"


class StoreLiveChannel:
    """Reads the inbox and the viewers of a run, and publishes parts of its iterations; see `system.LiveChannel`.

    Args:
        clock: Seconds since 1970.
    """

    def __init__(self, run_store: store.Store, run_id: str, clock: Callable[[], float] = time.time) -> None:
        self._store, self._run_id, self._clock, self._inbox = run_store, run_id, clock, run_store.inbox(run_id)
        self._settings: dict[str, JSON] = {}
        self._last_command, self._polled_at = 0, float("-inf")
        self._shown_step: int | None = None
        self._shown_stream: event_streams.EventStream | None = None
        self._watcher_stream: event_streams.EventStream | None = None
        for command in self._inbox.read(0):  # an earlier pause or stop does not count
            self._last_command = command.number
            self._settings |= dict(command.data) if command.kind == "set" else {}
        self._current = system.LiveSettings(dict(self._settings))

    def get_settings(self) -> system.LiveSettings:
        now = self._clock()
        if now - self._polled_at >= POLL_SECONDS:
            self._polled_at = now
            self._current = self._poll(now)
        return self._current

    def _poll(self, now: float) -> system.LiveSettings:
        is_paused, is_stopped = self._current.is_paused, self._current.is_stopped
        for command in self._inbox.read(self._last_command):
            self._last_command = command.number
            match command.kind:
                case "set":
                    self._settings |= dict(command.data)
                case "pause" | "resume":
                    is_paused = command.kind == "pause"
                case "stop":
                    is_stopped = True
        return system.LiveSettings(dict(self._settings), is_paused, is_stopped, self._is_watched(now))

    def _is_watched(self, now: float) -> bool:
        if self._watcher_stream is None and event_streams.has_streams(self._store.database):
            self._watcher_stream = event_streams.EventStream(self._store.database, WATCHERS_STREAM)
        return self._watcher_stream is not None and bool(
            self._watcher_stream.list_by_entity(self._run_id, int(now) - WATCHER_SECONDS)
        )

    def publish(self, iteration: int, index: int, text: str) -> None:
        if self._shown_stream is None:
            self._shown_stream = event_streams.EventStream(self._store.database, SHOWN_PREFIX + self._run_id)
        if iteration != self._shown_step:
            self._shown_step = iteration
            for entity in self._shown_stream.list_entities():
                self._shown_stream.remove(entity)
        self._shown_stream.append([event_streams.StreamEvent(index, str(iteration), "", text)])


def mark_watched(run_store: store.Store, run_id: str, now: float | None = None) -> None:
    """Records that a viewer watches a run. Repeat it while that is so."""
    timestamp = int(time.time() if now is None else now)
    stream = event_streams.EventStream(run_store.database, WATCHERS_STREAM)
    stream.remove(run_id, before=timestamp - WATCHER_SECONDS)
    if not stream.list_by_entity(run_id, timestamp - WATCHER_SECONDS // 3):
        stream.append([event_streams.StreamEvent(timestamp, run_id, "", "")])


def find_shown_step(run_store: store.Store, run_id: str) -> int | None:
    """Returns the last iteration that published something; None if none did."""
    if not event_streams.has_streams(run_store.database):
        return None
    steps = event_streams.EventStream(run_store.database, SHOWN_PREFIX + run_id).list_entities()
    return max(map(int, steps), default=None)


def list_shown_parts(run_store: store.Store, run_id: str, step: int, after: int = 0) -> Sequence[tuple[int, str]]:
    """Returns the parts that an iteration published after an index, in order."""
    rows = event_streams.EventStream(run_store.database, SHOWN_PREFIX + run_id).list_by_entity(str(step), after + 1)
    return [(row.timestamp, row.data) for row in rows]

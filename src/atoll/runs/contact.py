"""The way between a step that takes long and whoever watches and steers it, through the store."""

import time
from collections.abc import Callable, Sequence

from atoll import store, system
from atoll.candidate import JSON
from atoll.store import timeline

LOOK_SECONDS = 0.1  # between two looks into the store, however often somebody asks
WATCHED_SECONDS = 30  # so long a watcher counts who was heard of
WATCHERS, SHOWN = "watchers", "shown/"


class StoredContact:
    """Reads a run's inbox and its watchers, and writes what its steps show; see `system.Contact`.

    Args:
        kept: Where the run is.
        run: Its id.
        clock: Seconds since 1970.
    """

    def __init__(self, kept: store.Store, run: str, clock: Callable[[], float] = time.time) -> None:
        self._kept, self._run, self._clock, self._inbox = kept, run, clock, kept.inbox(run)
        self._settings: dict[str, JSON] = {}
        self._number, self._looked_at = 0, float("-inf")
        self._step: int | None = None
        self._shown: timeline.Timeline | None = None
        self._watchers: timeline.Timeline | None = None
        for command in self._inbox.read(0):  # a pause or a stop of an earlier start was its own
            self._number = command.number
            self._settings |= dict(command.data) if command.kind == "set" else {}
        self._now = system.Wishes(dict(self._settings))

    def wishes(self) -> system.Wishes:
        now = self._clock()
        if now - self._looked_at >= LOOK_SECONDS:
            self._looked_at = now
            self._now = self._look(now)
        return self._now

    def _look(self, now: float) -> system.Wishes:
        is_paused, is_stopped = self._now.is_paused, self._now.is_stopped
        for command in self._inbox.read(self._number):
            self._number = command.number
            match command.kind:
                case "set":
                    self._settings |= dict(command.data)
                case "pause" | "resume":
                    is_paused = command.kind == "pause"
                case "stop":
                    is_stopped = True
        return system.Wishes(dict(self._settings), is_paused, is_stopped, self._is_watched(now))

    def _is_watched(self, now: float) -> bool:
        if self._watchers is None and timeline.is_there(self._kept.database):
            self._watchers = timeline.Timeline(self._kept.database, WATCHERS)
        return self._watchers is not None and bool(self._watchers.of(self._run, int(now) - WATCHED_SECONDS))

    def show(self, step: int, number: int, text: str) -> None:
        if self._shown is None:
            self._shown = timeline.Timeline(self._kept.database, SHOWN + self._run)
        if step != self._step:
            self._step = step
            for entity in self._shown.entities():
                self._shown.remove(entity)
        self._shown.append([timeline.Moment(number, str(step), "", text)])


def watch(kept: store.Store, run: str, now: float | None = None) -> None:
    """Says that somebody looks at a run; to be said again while they do."""
    at = int(time.time() if now is None else now)
    stream = timeline.Timeline(kept.database, WATCHERS)
    stream.remove(run, before=at - WATCHED_SECONDS)
    if not stream.of(run, at - WATCHED_SECONDS // 3):
        stream.append([timeline.Moment(at, run, "", "")])


def shown(kept: store.Store, run: str) -> int | None:
    """Returns the step that shows itself, or showed itself last; None: none did."""
    if not timeline.is_there(kept.database):
        return None
    steps = timeline.Timeline(kept.database, SHOWN + run).entities()
    return max(map(int, steps), default=None)


def parts(kept: store.Store, run: str, step: int, after: int = 0) -> Sequence[tuple[int, str]]:
    """Returns what a step showed behind a number, in its order."""
    found = timeline.Timeline(kept.database, SHOWN + run).of(str(step), after + 1)
    return [(each.at, each.data) for each in found]

"""Reading ahead: long journals are added up before anybody asks, in a thread that rests as long as it works."""

import time
from collections.abc import Callable
from threading import Event, Thread

from atoll import errors, store
from atoll.dashboard.digest import Digests
from atoll.dashboard.finding import Finders

PORTION_SECONDS = 0.05
NEWEST = 20  # runs that are read ahead
AGAIN_SECONDS = 30.0


class Warmth:
    """Reads the newest runs of a store into the digests and the finders, a portion at a time."""

    def __init__(self, kept: store.Store, digests: Digests, finders: Finders) -> None:
        self._kept, self._digests, self._finders = kept, digests, finders
        self._stopped = Event()
        self._thread = Thread(target=self._read, name="atoll-dashboard-warmth", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Ends it and waits until it has let go of the store."""
        self._stopped.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stopped.is_set():
            try:
                for run in self._kept.runs()[:NEWEST]:
                    digest, finder = self._digests.of(run.id), self._finders.of(run.id)
                    self._portions(lambda: digest.advance(PORTION_SECONDS))  # noqa: B023 - called at once
                    self._portions(lambda: not finder.warm())  # noqa: B023 - called at once
            except errors.AtollError:
                pass  # whoever asks for the run is told what is wrong with it
            self._stopped.wait(AGAIN_SECONDS)

    def _portions(self, work: Callable[[], bool]) -> None:
        """Works until nothing is left, at half time."""
        is_done = False
        while not is_done and not self._stopped.is_set():
            began = time.monotonic()
            is_done = work()
            self._stopped.wait(time.monotonic() - began)

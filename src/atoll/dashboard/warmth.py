"""Reading ahead: long journals are added up before anybody asks, in a thread that rests as long as it works."""

import time
from collections.abc import Callable
from threading import Event, Thread

from atoll import errors, store
from atoll.dashboard.digest import RunTotalsCache
from atoll.dashboard.finding import RecordSearchCache

SLICE_SECONDS = 0.05
NUM_NEWEST_RUNS = 20  # runs that are read ahead
PAUSE_SECONDS = 30.0


class Prefetcher:
    """Reads the newest runs of a store into the digests and the finders, a portion at a time."""

    def __init__(self, run_store: store.Store, totals_cache: RunTotalsCache, search_cache: RecordSearchCache) -> None:
        self._run_store, self._totals_cache, self._search_cache = run_store, totals_cache, search_cache
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
                for run in self._run_store.list_runs()[:NUM_NEWEST_RUNS]:
                    totals, search = self._totals_cache.get(run.id), self._search_cache.get(run.id)
                    self._run_in_slices(lambda: totals.advance(SLICE_SECONDS))  # noqa: B023 - called at once
                    self._run_in_slices(lambda: not search.index_next_segment())  # noqa: B023 - called at once
            except errors.AtollError:
                pass  # whoever asks for the run is told what is wrong with it
            self._stopped.wait(PAUSE_SECONDS)

    def _run_in_slices(self, run_slice: Callable[[], bool]) -> None:
        """Works until nothing is left, at half time."""
        is_done = False
        while not is_done and not self._stopped.is_set():
            start_time = time.monotonic()
            is_done = run_slice()
            self._stopped.wait(time.monotonic() - start_time)

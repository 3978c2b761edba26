"""Dependencies of the routes: the store, an existing run, caches, page limits and cursors."""

import base64
import binascii
import json
import math
from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request

from atoll import errors, runs, store
from atoll.dashboard.response_cache import ResponseCache
from atoll.dashboard.run_status import RunStatusReader
from atoll.dashboard.run_totals import BATCH_RECORDS, RunTotalsCache

MAX_PAGE = 500
MAX_TEXT = 200
MAX_UNREAD = 2 * BATCH_RECORDS  # records that a request reads


def _get_store(request: Request) -> store.Store:
    run_store: store.Store = request.app.state.store
    return run_store


def _get_clock(request: Request) -> Callable[[], datetime]:
    clock: Callable[[], datetime] = request.app.state.clock
    return clock


ClockDep = Annotated[Callable[[], datetime], Depends(_get_clock)]
StoreDep = Annotated[store.Store, Depends(_get_store)]


def _find_run(run_store: StoreDep, run: Annotated[str, Path(max_length=MAX_TEXT)]) -> str:
    return runs.find_run(run_store, run)


def _make_status_reader(request: Request, run_store: StoreDep) -> Callable[[str, float], RunStatusReader]:
    state = request.app.state
    totals_cache: RunTotalsCache = state.totals_cache

    def read_status(run: str, seconds: float) -> RunStatusReader:
        totals = totals_cache.get(run)
        # The prefetcher reads a long journal, so that no request waits for it.
        if not totals.advance(seconds, MAX_UNREAD if state.prefetcher.is_running else math.inf):
            state.prefetcher.request(run)
        return RunStatusReader(run_store, run_store.get_run(run), totals)

    return read_status


def _get_cache(request: Request) -> ResponseCache:
    cache: ResponseCache = request.app.state.cache
    return cache


CacheDep = Annotated[ResponseCache, Depends(_get_cache)]
# Returns the status of a run after reading its journal for at most this many seconds.
StatusReaderDep = Annotated[Callable[[str, float], RunStatusReader], Depends(_make_status_reader)]
# Id of a run, its beginning or end, or `latest`. An unknown run gives 404 before the route starts.
RunId = Annotated[str, Depends(_find_run)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="Maximum number of rows.")]
After = Annotated[str | None, Query(max_length=MAX_TEXT, description="`next` of the previous page.")]


def make_cursor(*position: Any) -> str:
    """Encodes a position in a list as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(position, allow_nan=False).encode()).decode().rstrip("=")


def parse_cursor(cursor: str, *types: type | tuple[type, ...]) -> list[Any]:
    """Decodes a cursor.

    Raises:
        SetupError: The text is not a cursor of this list.
    """
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
        has_expected_length = isinstance(values, list) and len(values) == len(types)
        if (
            has_expected_length
            and all(isinstance(value, kind) for value, kind in zip(values, types, strict=True))
            and _fits_column(values)
        ):
            return list(values)
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise errors.SetupError("`after` is not a position in this list. Pass `next` of the previous page, or omit it.")


def _fits_column(values: list[Any]) -> bool:
    """Checks that every number fits into a database column."""
    return all(math.isfinite(value) if isinstance(value, float) else abs(value) < 2**62 for value in values)

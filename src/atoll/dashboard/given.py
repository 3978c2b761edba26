"""What routes are given: the store, a run that exists, and the limits of a page."""

from collections.abc import Callable
from typing import Annotated

from fastapi import Depends, Path, Query, Request

from atoll import runs, store
from atoll.dashboard.digest import Digests
from atoll.dashboard.memo import Memo
from atoll.dashboard.standing import Look

MAX_PAGE = 500
MAX_TEXT = 200


def _store(request: Request) -> store.Store:
    kept: store.Store = request.app.state.store
    return kept


Kept = Annotated[store.Store, Depends(_store)]


def _run(kept: Kept, run: Annotated[str, Path(max_length=MAX_TEXT)]) -> str:
    return runs.find(kept, run)


def _looking(request: Request, kept: Kept) -> Callable[[str, float], Look]:
    digests: Digests = request.app.state.digests

    def look(run: str, seconds: float) -> Look:
        digest = digests.of(run)
        digest.advance(seconds)
        return Look(kept, kept.run(run), digest)

    return look


def _memo(request: Request) -> Memo:
    found: Memo = request.app.state.memo
    return found


Remembered = Annotated[Memo, Depends(_memo)]
# Returns how a run stands, after reading on in its journal for so many seconds at most.
Looking = Annotated[Callable[[str, float], Look], Depends(_looking)]
# A run's id, its beginning or end, or `latest`; an unknown one is answered with 404 before the route begins.
RunId = Annotated[str, Depends(_run)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]
After = Annotated[str | None, Query(max_length=MAX_TEXT, description="The `next` of the page before.")]

"""What routes are given: the store, a run that exists, and the limits of a page."""

from typing import Annotated

from fastapi import Depends, Path, Query, Request

from atoll import runs, store

MAX_PAGE = 500
MAX_TEXT = 200


def _store(request: Request) -> store.Store:
    kept: store.Store = request.app.state.store
    return kept


Kept = Annotated[store.Store, Depends(_store)]


def _run(kept: Kept, run: Annotated[str, Path(max_length=MAX_TEXT)]) -> str:
    return runs.find(kept, run)


# A run's id, its beginning or end, or `latest`; an unknown one is answered with 404 before the route begins.
RunId = Annotated[str, Depends(_run)]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="How many at most.")]
After = Annotated[str | None, Query(max_length=MAX_TEXT, description="The `next` of the page before.")]

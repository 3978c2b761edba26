"""Records of a run: list, search, details."""

import json
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel

from atoll import errors, runs
from atoll.dashboard import dependencies, text_limits
from atoll.dashboard.dependencies import MAX_TEXT, After, Limit, StoreDep
from atoll.dashboard.record_search import RecordSearchCache
from atoll.runs.text_format import summarize_record
from atoll.store.records.queries import NumberedRecord, RecordQueries

SEARCH_SECONDS = 0.15  # time limit of a search

router = APIRouter(tags=["events"])

RunQuery = Annotated[str, Query(max_length=MAX_TEXT, description="Id of a run, or `latest`.")]
Kinds = Annotated[str, Query(max_length=MAX_TEXT, description="Record kinds, separated by commas; empty: all.")]
SearchText = Annotated[
    str, Query(max_length=MAX_TEXT, description="Text that the record contains; case does not matter.")
]


class EventRow(BaseModel):
    """A record in a list; `at` is its time in seconds since 1970, null in runs of version 0.1."""

    seq: int
    kind: str
    step: int
    island: int
    gist: str
    size: int
    at: float | None


class EventPage(BaseModel):
    """Records, newest first.

    A search has a time limit: `looked` is the oldest record it read, and `next` continues from there. `is_done` means
    that no older record is left.
    """

    run: str
    events: list[EventRow]
    total: int
    looked: int
    is_done: bool
    next: str | None


class FullEvent(EventRow):
    """A record with its data as JSON text, truncated if very long."""

    run: str
    data: text_limits.Text


@router.get("/events")
def list_events(
    request: Request,
    run_store: StoreDep,
    run: RunQuery = "latest",
    kind: Kinds = "",
    q: SearchText = "",
    limit: Limit = 100,
    after: After = None,
) -> EventPage:
    """Lists the records of a run, newest first, optionally by kind and text."""
    run_id = runs.find_run(run_store, run)
    search_cache: RecordSearchCache = request.app.state.search_cache
    search = search_cache.get(run_id)
    end = search.queries.get_end()
    before = dependencies.parse_cursor(after, int)[0] if after else end + 1
    kinds = [name for part in kind.split(",") if (name := part.strip())]
    # The journal is ASCII, so the search text is escaped in the same way.
    page = search.search(kinds, escape_text(q), before, limit, SEARCH_SECONDS)
    return EventPage(
        run=run_id,
        events=[make_row(event) for event in page.events],
        total=end,
        looked=page.oldest_searched,
        is_done=page.is_done,
        next=None if page.is_done else dependencies.make_cursor(page.oldest_searched),
    )


@router.get("/events/{run}/{seq}")
def show_event(
    run_store: StoreDep, run: Annotated[str, Path(max_length=MAX_TEXT)], seq: Annotated[int, Path(ge=1, le=1 << 60)]
) -> FullEvent:
    """Returns one record with its data."""
    run_id = runs.find_run(run_store, run)
    queries = RecordQueries(run_store, run_id)
    records = queries.list_by_seq([seq])
    if not records:
        raise errors.NotFound(f"Record {seq} not found in run {run_id}.")
    data = json.dumps(queries.load_data(records[0]), indent=2, ensure_ascii=False)
    return FullEvent(**make_row(records[0]).model_dump(), run=run_id, data=text_limits.truncate(data))


def make_row(event: NumberedRecord) -> EventRow:
    return EventRow(
        seq=event.seq,
        kind=event.kind,
        step=event.step,
        island=event.island,
        gist=summarize_record(event),
        size=len(event.data),
        at=event.at,
    )


def escape_text(text: str) -> str:
    """Escapes a text like an ASCII JSON string."""
    return json.dumps(text)[1:-1]

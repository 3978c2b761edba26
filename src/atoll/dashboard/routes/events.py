"""What happened in a run: its journal, searched, and as it grows."""

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

SEARCH_SECONDS = 0.15  # before an answer says how far it came

router = APIRouter(tags=["events"])

RunQuery = Annotated[str, Query(max_length=MAX_TEXT, description="A run's id, or `latest`.")]
Kinds = Annotated[str, Query(max_length=MAX_TEXT, description="Kinds of records, with commas; empty: all.")]
SearchText = Annotated[str, Query(max_length=MAX_TEXT, description="A text that stands in the record; either case.")]


class EventRow(BaseModel):
    """A record of the journal in a line."""

    seq: int
    kind: str
    step: int
    island: int
    gist: str
    size: int


class EventPage(BaseModel):
    """Records, newest first.

    A search ends after a while: all down to `looked` were seen, and `next` goes on from there. `is_done` says that
    nothing older is left.
    """

    run: str
    events: list[EventRow]
    total: int
    looked: int
    is_done: bool
    next: str | None


class FullEvent(EventRow):
    """A record with its data as JSON text, cut where that is very long."""

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
    """Lists the records of a run, newest first, of some kinds or with some words in them."""
    run_id = runs.find_run(run_store, run)
    search_cache: RecordSearchCache = request.app.state.finders
    search = search_cache.get(run_id)
    end = search.queries.get_end()
    before = dependencies.parse_cursor(after, int)[0] if after else end + 1
    kinds = [name for part in kind.split(",") if (name := part.strip())]
    # The journal is written in ASCII: what stands in it is searched as it stands there.
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
    """Shows one record with its data."""
    run_id = runs.find_run(run_store, run)
    queries = RecordQueries(run_store, run_id)
    records = queries.list_by_seq([seq])
    if not records:
        raise errors.NotFound(f"Run {run_id} has no record {seq}.")
    data = json.dumps(queries.load_data(records[0]), indent=2, ensure_ascii=False)
    return FullEvent(**make_row(records[0]).model_dump(), run=run_id, data=text_limits.truncate(data))


def make_row(event: NumberedRecord) -> EventRow:
    """Returns a record as a line."""
    return EventRow(
        seq=event.seq,
        kind=event.kind,
        step=event.step,
        island=event.island,
        gist=summarize_record(event),
        size=len(event.data),
    )


def escape_text(text: str) -> str:
    """Returns a text as it stands inside a JSON string in ASCII."""
    return json.dumps(text)[1:-1]

"""What happened in a run: its journal, searched, and as it grows."""

import json
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from pydantic import BaseModel

from atoll import errors, runs
from atoll.dashboard import paging, texts
from atoll.dashboard.finding import Finders
from atoll.dashboard.given import MAX_TEXT, After, Kept, Limit
from atoll.runs.gists import gist
from atoll.store.events import Event, Events

LOOK_SECONDS = 0.15  # before an answer says how far it came

router = APIRouter(tags=["events"])

RunQuery = Annotated[str, Query(max_length=MAX_TEXT, description="A run's id, or `latest`.")]
Kinds = Annotated[str, Query(max_length=MAX_TEXT, description="Kinds of records, with commas; empty: all.")]
Words = Annotated[str, Query(max_length=MAX_TEXT, description="A text that stands in the record; either case.")]


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


class WholeEvent(EventRow):
    """A record with its data as JSON text, cut where that is very long."""

    run: str
    data: texts.Text


@router.get("/events")
def list_events(
    request: Request,
    kept: Kept,
    run: RunQuery = "latest",
    kind: Kinds = "",
    q: Words = "",
    limit: Limit = 100,
    after: After = None,
) -> EventPage:
    """Lists the records of a run, newest first, of some kinds or with some words in them."""
    found_run = runs.find(kept, run)
    finders: Finders = request.app.state.finders
    finder = finders.of(found_run)
    end = finder.events.end()
    before = paging.place(after, int)[0] if after else end + 1
    kinds = [name for each in kind.split(",") if (name := each.strip())]
    # The journal is written in ASCII: what stands in it is searched as it stands there.
    page = finder.page(kinds, escaped(q), before, limit, LOOK_SECONDS)
    return EventPage(
        run=found_run,
        events=[row(each) for each in page.events],
        total=end,
        looked=page.looked,
        is_done=page.is_done,
        next=None if page.is_done else paging.cursor(page.looked),
    )


@router.get("/events/{run}/{seq}")
def show_event(
    kept: Kept, run: Annotated[str, Path(max_length=MAX_TEXT)], seq: Annotated[int, Path(ge=1, le=1 << 60)]
) -> WholeEvent:
    """Shows one record with its data."""
    found_run = runs.find(kept, run)
    events = Events(kept, found_run)
    found = events.at([seq])
    if not found:
        raise errors.NotFound(f"Run {found_run} has no record {seq}.")
    data = json.dumps(events.whole(found[0]), indent=2, ensure_ascii=False)
    return WholeEvent(**row(found[0]).model_dump(), run=found_run, data=texts.cut(data))


def row(event: Event) -> EventRow:
    """Returns a record as a line."""
    return EventRow(
        seq=event.seq, kind=event.kind, step=event.step, island=event.island, gist=gist(event), size=len(event.data)
    )


def escaped(words: str) -> str:
    """Returns a text as it stands inside a JSON string in ASCII."""
    return json.dumps(words)[1:-1]

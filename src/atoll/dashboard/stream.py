"""The live stream: the journal of a run as server-sent events, to many clients at once.

    store ──poll──> Tail (one per run that is watched) ──> Client, Client, ...

A tail reads the store a few times a second, whoever writes it, and keeps the newest records as bytes. A client has no
queue of its own, only its place: who is far behind reads the store. So nothing waits for a client that stalls, and
nothing is kept for it; when a send takes too long its connection is cut, and its browser comes back with
`Last-Event-ID` to where it was.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

import msgspec
from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from atoll import errors, runs, store
from atoll.dashboard.given import MAX_TEXT, Kept
from atoll.runs.gists import gist
from atoll.store.events import Event, Events

POLL_SECONDS = 0.2
PING_SECONDS = 10
STALLED_SECONDS = 10.0  # that one send may take
RETRY_MILLISECONDS = 1000
KEPT = 4096  # records that a tail keeps
BATCH = 512  # records that are sent at once
MAX_CLIENTS = 500

router = APIRouter(tags=["events"])
_encode = msgspec.json.Encoder().encode


class Tail:
    """The end of a run's journal, as it grows. Lives in the event loop; the store is read in threads."""

    def __init__(self, kept: store.Store, run: str, poll_seconds: float = POLL_SECONDS) -> None:
        self._events, self._poll_seconds = Events(kept, run), poll_seconds
        self._newest: deque[bytes] = deque(maxlen=KEPT)
        self.end = 0  # the number of the last of them
        self._grown = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.num_clients = 0
        self.is_closed = False

    async def enter(self) -> None:
        """Begins to poll with the first client."""
        self.num_clients += 1
        if self._task is None:
            end = await run_in_threadpool(self._events.end)
            if self._task is None:  # nobody else came meanwhile
                self._newest.clear()
                self.end = end
                self._task = asyncio.create_task(self._poll())

    async def leave(self) -> None:
        """Ends polling with the last client."""
        self.num_clients -= 1
        if not self.num_clients and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def after(self, seq: int) -> tuple[bytes, int]:
        """Waits for records behind a number; returns some of them as they are sent, and the number of the last."""
        while not self.is_closed:
            end = self.end
            if seq < end:
                oldest = end - len(self._newest)
                if seq >= oldest:
                    return self._sent(seq, oldest, end)
                found = await run_in_threadpool(self._events.after, seq, BATCH)
                if found:
                    return b"".join(map(encoded, found)), found[-1].seq
            async with self._grown:
                await self._grown.wait_for(lambda: self.end > seq or self.is_closed)
        return b"", seq

    async def close(self) -> None:
        """Lets all clients go."""
        async with self._grown:
            self.is_closed = True
            self._grown.notify_all()

    def _sent(self, seq: int, oldest: int, end: int) -> tuple[bytes, int]:
        last = min(end, seq + BATCH)
        return b"".join(self._newest[place - oldest - 1] for place in range(seq + 1, last + 1)), last

    async def _poll(self) -> None:
        while True:
            try:
                found = await run_in_threadpool(self._fresh)
            except errors.StoreFailed:
                found = ()  # a server that is away for a moment: whoever watches waits for it
            if found:
                async with self._grown:
                    self._newest.extend(map(encoded, found))
                    self.end = found[-1].seq
                    self._grown.notify_all()
            if len(found) < BATCH:
                await asyncio.sleep(self._poll_seconds)

    def _fresh(self) -> Sequence[Event]:
        return self._events.after(self.end, BATCH) if self._events.end() > self.end else ()


class Tails:
    """The tails of the runs that somebody watches."""

    def __init__(self, kept: store.Store) -> None:
        self._kept, self._found = kept, dict[str, Tail]()
        self.num_clients = 0
        self.num_cut = 0

    @contextlib.asynccontextmanager
    async def of(self, run: str) -> AsyncIterator[Tail]:
        """Lends the tail of a run, which polls as long as somebody has it."""
        tail = self._found.get(run)
        if tail is None:
            made = await run_in_threadpool(Tail, self._kept, run)
            tail = self._found.setdefault(run, made)
        self.num_clients += 1
        try:
            await tail.enter()
            yield tail
        finally:  # also of who left, or met a store that failed, before he was in
            self.num_clients -= 1
            await tail.leave()
            if not tail.num_clients:
                self._found.pop(run, None)

    async def close(self) -> None:
        """Ends all streams."""
        for tail in list(self._found.values()):
            await tail.close()


def encoded(event: Event) -> bytes:
    """Returns a record as it is sent."""
    data = {"seq": event.seq, "kind": event.kind, "step": event.step, "island": event.island, "gist": gist(event)}
    return b"id: %d\ndata: %b\n\n" % (event.seq, _encode(data))


class Stream(EventSourceResponse):
    """An answer that goes on; one whose client does not take it is ended."""

    def __init__(self, content: AsyncIterator[bytes], tails: Tails) -> None:
        super().__init__(content, ping=PING_SECONDS, send_timeout=STALLED_SECONDS)
        self._tails = tails

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        except SendTimeoutError:
            self._tails.num_cut += 1


@router.get(
    "/sse/timeline",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Records as they are written."}},
)
async def timeline(
    request: Request,
    kept: Kept,
    run: Annotated[str, Query(max_length=MAX_TEXT, description="A run's id, or `latest`.")] = "latest",
    after: Annotated[
        int | None, Query(ge=0, le=1 << 60, description="Send what is behind this record; default: what is new.")
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=MAX_TEXT)] = None,
) -> EventSourceResponse:
    """Streams the records of a run as they are written, each with its number as `id`.

    A client that comes back with `Last-Event-ID` misses nothing. Comments keep the line alive.
    """
    tails: Tails = request.app.state.tails
    if tails.num_clients >= MAX_CLIENTS:
        raise errors.Conflict(f"{MAX_CLIENTS} clients watch already: close some of them.")
    found = await run_in_threadpool(runs.find, kept, run)
    seen = int(last_event_id) if last_event_id and last_event_id.isdecimal() else after
    return Stream(_records(tails, found, seen), tails)


async def _records(tails: Tails, run: str, seen: int | None) -> AsyncIterator[bytes]:
    async with tails.of(run) as tail:
        place = tail.end if seen is None else seen
        yield b"retry: %d\nevent: hello\ndata: %b\n\n" % (RETRY_MILLISECONDS, _encode({"run": run, "end": tail.end}))
        while not tail.is_closed:
            body, place = await tail.after(place)
            yield body

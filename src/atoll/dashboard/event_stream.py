"""Live stream: the journal of a run as server-sent events, for many clients at once.

    store ──feed──> RunTail (one per watched run) ──> client, client, ...

A tail waits on the feed of the run and buffers the newest records as bytes. A client has no queue, only a
position. A client that is far behind reads from the store, so a stalled client neither delays others nor uses memory.
If a send takes too long, the server closes the connection. The browser then reconnects with `Last-Event-ID`.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Annotated

import msgspec
from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Header, Query, Request
from sse_starlette import EventSourceResponse
from sse_starlette.sse import SendTimeoutError
from starlette.concurrency import run_in_threadpool
from starlette.types import Receive, Scope, Send

from atoll import errors, runs, store
from atoll.dashboard import security
from atoll.dashboard.dependencies import MAX_TEXT, StoreDep
from atoll.runs.text_format import summarize_record
from atoll.store.records.queries import NumberedRecord, RecordQueries

WAIT_SECONDS = 0.2  # maximum time of one wait on the feed
PING_SECONDS = 10
STALLED_SECONDS = 10.0  # maximum time of one send
RETRY_MILLISECONDS = 1000
BUFFERED_RECORDS = 4096  # per tail
BATCH = 512  # maximum number of records in one send
MAX_CLIENTS = 500
MAX_GUESTS = 200  # of them without the token, which only this machine allows

router = APIRouter(tags=["events"])
_encode = msgspec.json.Encoder().encode


class RunTail:
    """Newest records of a run. Runs in the event loop and reads the store in threads."""

    def __init__(self, run_store: store.Store, run: str) -> None:
        self._queries, self._feed = RecordQueries(run_store, run), run_store.feed(run)
        self._newest: deque[bytes] = deque(maxlen=BUFFERED_RECORDS)
        self.end = 0  # sequence number of the last buffered record
        self._grown = asyncio.Condition()
        self._task: asyncio.Task[None] | None = None
        self.num_clients = 0
        self.is_closed = False

    async def enter(self) -> None:
        """Adds a client; the first one starts the task that follows the run."""
        self.num_clients += 1
        if self._task is None:
            end = await run_in_threadpool(self._queries.get_end)
            if self._task is None:  # unless another client has started it
                self._newest.clear()
                self.end = end
                self._task = asyncio.create_task(self._follow())

    async def leave(self) -> None:
        """Removes a client; the last one stops the task."""
        self.num_clients -= 1
        if not self.num_clients and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def read_after(self, seq: int) -> tuple[bytes, int]:
        """Waits for records after a sequence number; returns encoded events and the last sequence number."""
        while not self.is_closed:
            end = self.end
            if seq < end:
                oldest = end - len(self._newest)
                if seq >= oldest:
                    return self._slice_newest(seq, oldest, end)
                records = await run_in_threadpool(self._queries.list_after, seq, BATCH)
                if records:
                    return b"".join(map(encode_event, records)), records[-1].seq
            async with self._grown:
                await self._grown.wait_for(lambda: self.end > seq or self.is_closed)
        return b"", seq

    async def close(self) -> None:
        """Ends the streams of all clients."""
        async with self._grown:
            self.is_closed = True
            self._grown.notify_all()

    def _slice_newest(self, seq: int, oldest: int, end: int) -> tuple[bytes, int]:
        last = min(end, seq + BATCH)
        return b"".join(self._newest[record_seq - oldest - 1] for record_seq in range(seq + 1, last + 1)), last

    async def _follow(self) -> None:
        limiter = CapacityLimiter(1)  # waiting threads must not block those of the routes
        while True:
            try:
                records = await to_thread.run_sync(self._read_new, limiter=limiter)
            except errors.StoreFailed:
                records = ()  # the database may be back at the next attempt
                await asyncio.sleep(WAIT_SECONDS)
            if records:
                async with self._grown:
                    self._newest.extend(map(encode_event, records))
                    self.end = records[-1].seq
                    self._grown.notify_all()

    def _read_new(self) -> Sequence[NumberedRecord]:
        if self._queries.get_end() <= self.end:
            next(self._feed.follow(self.end, timeout=WAIT_SECONDS, buffer=0), None)  # a gap instead of records
        return self._queries.list_after(self.end, BATCH)


class RunTails:
    """Tails of all watched runs."""

    def __init__(self, run_store: store.Store) -> None:
        self._run_store, self._tails = run_store, dict[str, RunTail]()
        self.num_clients = 0
        self._num_guests = 0
        self.num_cut = 0

    @contextlib.contextmanager
    def reserve(self, *, is_guest: bool) -> Iterator[None]:
        """Reserves a stream. Nothing is awaited between the check and the count.

        Raises:
            Conflict: There are too many streams.
        """
        if self.num_clients >= MAX_CLIENTS or (is_guest and self._num_guests >= MAX_GUESTS):
            raise errors.Conflict(f"The server already has {self.num_clients} streams. Close some of them.")
        self.num_clients += 1
        self._num_guests += is_guest
        try:
            yield
        finally:
            self.num_clients -= 1
            self._num_guests -= is_guest

    @contextlib.asynccontextmanager
    async def subscribe(self, run: str) -> AsyncIterator[RunTail]:
        """Yields the tail of a run, which follows it while it has clients."""
        tail = self._tails.get(run)
        if tail is None:
            new_tail = await run_in_threadpool(RunTail, self._run_store, run)
            tail = self._tails.setdefault(run, new_tail)
        try:
            await tail.enter()
            yield tail
        finally:  # also if the client left or the store failed during `enter`
            await tail.leave()
            if not tail.num_clients:
                self._tails.pop(run, None)

    async def close(self) -> None:
        """Ends all streams."""
        for tail in list(self._tails.values()):
            await tail.close()


def encode_event(event: NumberedRecord) -> bytes:
    """Encodes a record as a server-sent event."""
    data = {
        "seq": event.seq,
        "kind": event.kind,
        "step": event.step,
        "island": event.island,
        "gist": summarize_record(event),
        "at": event.at,
    }
    return b"id: %d\ndata: %b\n\n" % (event.seq, _encode(data))


class EventStreamResponse(EventSourceResponse):
    """Streaming response that ends if its client reads nothing."""

    def __init__(self, content: AsyncIterator[bytes], tails: RunTails, reservation: contextlib.ExitStack) -> None:
        super().__init__(content, ping=PING_SECONDS, send_timeout=STALLED_SECONDS)
        self._tails, self._reservation = tails, reservation

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            with self._reservation:
                await super().__call__(scope, receive, send)
        except SendTimeoutError:
            self._tails.num_cut += 1


@router.get(
    "/sse/timeline",
    response_class=EventSourceResponse,
    responses={200: {"content": {"text/event-stream": {}}, "description": "Records as they are written."}},
)
async def stream_timeline(
    request: Request,
    run_store: StoreDep,
    run: Annotated[str, Query(max_length=MAX_TEXT, description="Id of a run, or `latest`.")] = "latest",
    after: Annotated[
        int | None, Query(ge=0, le=1 << 60, description="Send records after this one; default: only new records.")
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=MAX_TEXT)] = None,
) -> EventSourceResponse:
    """Streams the records of a run as they are written, each with its number as `id`.

    A client that reconnects with `Last-Event-ID` misses no record. Comments keep the connection alive.
    """
    tails: RunTails = request.app.state.tails
    with contextlib.ExitStack() as reservation:
        reservation.enter_context(tails.reserve(is_guest=not security.can_change(request.scope)))
        run_id = await run_in_threadpool(runs.find_run, run_store, run)
        last_seen = int(last_event_id) if last_event_id and last_event_id.isdecimal() else after
        return EventStreamResponse(_iter_records(tails, run_id, last_seen), tails, reservation.pop_all())


async def _iter_records(tails: RunTails, run: str, last_seen: int | None) -> AsyncIterator[bytes]:
    async with tails.subscribe(run) as tail:
        position = tail.end if last_seen is None else last_seen
        yield b"retry: %d\nevent: hello\ndata: %b\n\n" % (RETRY_MILLISECONDS, _encode({"run": run, "end": tail.end}))
        while not tail.is_closed:
            body, position = await tail.read_after(position)
            yield body

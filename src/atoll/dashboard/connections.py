"""Limits on connections, wrong tokens and log lines, so that a few clients cannot starve the others.

A connection that has not sent a whole request, or does not read its response, is *waiting*. It ends after
`WAITING_SECONDS`. If there are too many, the oldest one ends first: a browser sends its request at once, so it is
served before its turn comes.
"""

import asyncio
import contextlib
import logging
import math
import resource
import time
from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

WAITING_SECONDS = 10.0
MAX_CONNECTIONS = 2000
MAX_WAITING = 400
MAX_PER_ADDRESS = 600  # more than the streams of one address
MAX_WAITING_PER_ADDRESS = 200
_RESERVED_FILES = 150  # descriptors for the store and static files
MAX_FREE_FAILURES = 5  # wrong tokens of one address before it must wait
MAX_BACKOFF_SECONDS = 60.0
_MAX_ADDRESSES = 10_000
_MAX_LOG_LINES, _LOG_SECONDS = 20, 60.0


class ConnectionGuard:
    """Counts the open connections of a server and decides which one ends when there are too many."""

    def __init__(self) -> None:
        self._waiting: OrderedDict[GuardedProtocol, str] = OrderedDict()  # oldest first, with their addresses
        self._open: dict[GuardedProtocol, str] = {}
        self._per_address, self._waiting_per_address = Counter[str](), Counter[str]()
        file_limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        self._max_open = max(20, min(MAX_CONNECTIONS, file_limit - _RESERVED_FILES))

    def add(self, protocol: "GuardedProtocol", address: str) -> bool:
        """Adds a waiting connection; returns False if all places are taken."""
        if self._waiting_per_address[address] >= MAX_WAITING_PER_ADDRESS:
            self._end_oldest(address)
        elif len(self._waiting) >= MAX_WAITING:
            self._end_oldest()
        if self._per_address[address] >= MAX_PER_ADDRESS and not self._end_oldest(address):
            return False
        if len(self._open) >= self._max_open and not self._end_oldest():
            return False
        self._open[protocol] = address
        self._per_address[address] += 1
        self.set_waiting(protocol, is_waiting=True)
        return True

    def set_waiting(self, protocol: "GuardedProtocol", *, is_waiting: bool) -> None:
        address = self._open.get(protocol)
        if address is None or (protocol in self._waiting) == is_waiting:
            return
        if is_waiting:
            self._waiting[protocol] = address
            self._waiting_per_address[address] += 1
        else:
            del self._waiting[protocol]
            _decrement(self._waiting_per_address, address)

    def remove(self, protocol: "GuardedProtocol") -> None:
        self.set_waiting(protocol, is_waiting=False)
        address = self._open.pop(protocol, None)
        if address is not None:
            _decrement(self._per_address, address)

    def _end_oldest(self, address: str | None = None) -> bool:
        """Ends the oldest waiting connection, of one address or of all; returns False if there is none."""
        protocol = next((item for item, own in self._waiting.items() if address in (None, own)), None)
        if protocol is None:
            return False
        self.remove(protocol)
        protocol.abort()
        return True


class Activity:
    """Counts the requests that are being served, except streams, which stay open."""

    def __init__(self) -> None:
        self._num_active, self._last_at = 0, -math.inf

    @contextlib.contextmanager
    def track(self, path: str) -> Iterator[None]:
        if path.startswith("/sse/"):
            yield
            return
        self._num_active += 1
        try:
            yield
        finally:
            self._num_active -= 1
            self._last_at = time.monotonic()

    def get_quiet_seconds(self) -> float:
        """Returns the seconds since the end of the last request; 0: one is being served."""
        return 0.0 if self._num_active else time.monotonic() - self._last_at


def _decrement(counter: Counter[str], key: str) -> None:
    counter[key] -= 1
    if not counter[key]:
        del counter[key]


class GuardedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # one of two classes, chosen at import
    """HTTP connection that a guard counts and ends. `make_protocol` binds it to a guard."""

    guard: ConnectionGuard
    _timer: asyncio.TimerHandle | None = None
    _is_stalled = False  # the client does not read

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        peer = transport.get_extra_info("peername")
        if not self.guard.add(self, str(peer[0]) if isinstance(peer, tuple) else ""):
            transport.abort()
            return
        self._watch()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timer()
        self.guard.remove(self)
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._is_stalled = True
        self._watch()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._is_stalled = False
        self._watch()

    def abort(self) -> None:
        self._stop_timer()
        self.transport.abort()

    def _watch(self) -> None:
        """Starts the timer of a connection that waits, and stops it when the client sent a request or read."""
        is_waiting = self._is_stalled or self.cycle is None or self.cycle.response_complete
        self.guard.set_waiting(self, is_waiting=is_waiting)
        if not is_waiting:
            self._stop_timer()
        elif self._timer is None:
            self._timer = self.loop.call_later(WAITING_SECONDS, self.abort)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def make_protocol(guard: ConnectionGuard) -> type[asyncio.Protocol]:
    """Returns the protocol class of one server."""
    return type("GuardedProtocol", (GuardedProtocol,), {"guard": guard})


class TokenBackoff:
    """Makes an address wait after several wrong tokens, longer each time."""

    def __init__(self) -> None:
        self._failures: OrderedDict[str, tuple[int, float]] = OrderedDict()  # number and end of the wait, by address

    def get_wait(self, address: str) -> float:
        """Returns the seconds that an address must wait; 0.0: none."""
        return max(0.0, self._failures.get(address, (0, 0.0))[1] - time.monotonic())

    def add_failure(self, address: str) -> None:
        count = self._failures.pop(address, (0, 0.0))[0] + 1
        excess = count - MAX_FREE_FAILURES
        seconds = min(MAX_BACKOFF_SECONDS, 2.0 ** min(excess, 10)) if excess >= 0 else 0.0
        self._failures[address] = (count, time.monotonic() + seconds)
        if len(self._failures) > _MAX_ADDRESSES:
            self._failures.popitem(last=False)

    def clear(self, address: str) -> None:
        self._failures.pop(address, None)


class LogLimit(logging.Filter):
    """Lets few lines per minute through, and says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._start, self._count = time.monotonic(), 0

    def filter(self, record: logging.LogRecord) -> bool:
        now = time.monotonic()
        if now - self._start > _LOG_SECONDS:
            left_out = self._count - _MAX_LOG_LINES
            self._start, self._count = now, 0
            if left_out > 0:
                record.msg, record.args = f"{record.getMessage()} ({left_out} lines were left out)", ()
        self._count += 1
        return self._count <= _MAX_LOG_LINES

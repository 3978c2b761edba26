"""Kept connections for threads that wait: a call is a send and a receive, with no event loop between.

A loop in a thread of its own took 0.4 ms of CPU for a call on loopback, most of it for handing over.
"""

import asyncio
import contextlib
import select
import socket
import time
from collections.abc import Coroutine
from typing import Any

from atoll.llm import connections

_PIECE = 2**16  # bytes that are taken at once
_LONGEST_HEAD = 2**16


class Wires:
    """Keeps as many connections as there were requests at once; for one server, from any thread of one process."""

    def __init__(self) -> None:
        self._idle: list[_Wire] = []
        self._is_closed = False

    def exchange(self, request: connections.Request, *, connect_seconds: float, deadline: float) -> connections.Answer:
        """Sends a request and returns the answer.

        Args:
            request: What is sent.
            connect_seconds: How long a connection may take.
            deadline: When the answer must be there, on the monotonic clock.

        Raises:
            Lost: There is none.
        """
        while wire := self._kept():
            if not wire.is_quiet():  # closed by now, or it says what nobody asked ("408 you are idle")
                wire.close()
                continue
            try:
                return self._ask(wire, request.message, deadline)
            except connections.HungUp:
                break  # closed for its age while the request was on its way
        return self._ask(_connected(request, connect_seconds), request.message, deadline)

    def close(self) -> None:
        """Ends all connections; those at work when they are done."""
        self._is_closed = True
        while wire := self._kept():
            wire.close()

    def _kept(self) -> "_Wire | None":
        try:
            return self._idle.pop()  # the one used last is the least likely to be closed by now
        except IndexError:
            return None

    def _ask(self, wire: "_Wire", message: bytes, deadline: float) -> connections.Answer:
        is_kept = False
        try:
            wire.send(message, deadline)
            answer, is_kept = _result(connections.read_answer(wire))
        except TimeoutError:
            raise connections.Silent("no answer in time") from None
        except asyncio.IncompleteReadError:
            if wire.has_answered:
                raise connections.Lost("the answer broke off") from None
            raise connections.HungUp("no answer") from None
        except (ValueError, asyncio.LimitOverrunError) as error:
            raise connections.Foreign(f"the answer is no HTTP/1.1: {error}") from None
        finally:
            if is_kept and not self._is_closed:
                self._idle.append(wire)
            else:
                wire.close()
        return answer


class _Wire:
    """A connection that is read like a stream of asyncio's, by coroutines that never wait for anything but a socket."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket, self._data, self._deadline = connected, bytearray(), 0.0
        self._poll = select.poll()
        self._poll.register(connected, select.POLLIN)
        self.has_answered = self._is_ended = False  # in this exchange

    def is_quiet(self) -> bool:
        return not self._poll.poll(0)

    def send(self, message: bytes, deadline: float) -> None:
        self.has_answered = self._is_ended = False
        self._data.clear()
        self._deadline = deadline
        self._socket.settimeout(self._seconds_left())
        with contextlib.suppress(ConnectionError):  # it may have answered nevertheless
            self._socket.sendall(message)

    def close(self) -> None:
        self._socket.close()

    async def readuntil(self, separator: bytes) -> bytes:
        start = 0
        while (end := self._data.find(separator, start)) < 0:
            if len(self._data) > _LONGEST_HEAD:
                raise asyncio.LimitOverrunError("its head is too long", len(self._data))
            start = max(0, len(self._data) - len(separator))
            self._fill()
        return self._taken(end + len(separator))

    async def readexactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._fill()
        return self._taken(size)

    async def read(self, size: int = -1) -> bytes:
        if not self._data and not self._is_ended:
            self._receive()
        return self._taken(len(self._data) if size < 0 else size)

    def feed_eof(self) -> None:
        self._is_ended = True

    def _fill(self) -> None:
        if not self._receive():
            raise asyncio.IncompleteReadError(bytes(self._data), None)

    def _receive(self) -> bool:
        """Takes what is there, or comes; False: nothing will."""
        self._socket.settimeout(self._seconds_left())
        try:
            chunk = self._socket.recv(_PIECE)
        except ConnectionError:
            chunk = b""
        self.has_answered = self.has_answered or bool(chunk)
        self._data += chunk
        return bool(chunk)

    def _taken(self, size: int) -> bytes:
        taken = bytes(self._data[:size])
        del self._data[:size]
        return taken

    def _seconds_left(self) -> float:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left


def _connected(request: connections.Request, seconds: float) -> _Wire:
    try:
        made = socket.create_connection((request.host, request.port), seconds)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except TimeoutError:
        raise connections.Unreachable(f"no connection within {seconds} seconds") from None
    except OSError as error:
        raise connections.Unreachable(str(error)) from None
    return _Wire(made)


def _result[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that waits for no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]  # it is what the coroutine returns
    raise AssertionError("a wire never lets others run")

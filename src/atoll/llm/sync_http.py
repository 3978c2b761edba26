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

from atoll.llm import async_http

_CHUNK_BYTES = 2**16  # bytes that are taken at once
_MAX_HEADER_BYTES = 2**16


class SyncConnectionPool:
    """Keeps as many connections as there were requests at once; for one server, from any thread of one process."""

    def __init__(self) -> None:
        self._idle: list[_SyncConnection] = []
        self._is_closed = False

    def exchange(
        self, request: async_http.HTTPRequest, *, connect_seconds: float, deadline: float
    ) -> async_http.HTTPResponse:
        """Sends a request and returns the answer.

        Args:
            request: What is sent.
            connect_seconds: How long a connection may take.
            deadline: When the answer must be there, on the monotonic clock.

        Raises:
            Lost: There is none.
        """
        while connection := self._pop_idle():
            if not connection.has_no_data():  # closed by now, or it says what nobody asked ("408 you are idle")
                connection.close()
                continue
            try:
                return self._exchange_on(connection, request.message, deadline)
            except async_http.ConnectionClosed:
                break  # closed for its age while the request was on its way
        return self._exchange_on(_connect(request, connect_seconds), request.message, deadline)

    def close(self) -> None:
        """Ends all connections; those at work when they are done."""
        self._is_closed = True
        while connection := self._pop_idle():
            connection.close()

    def _pop_idle(self) -> "_SyncConnection | None":
        try:
            return self._idle.pop()  # the one used last is the least likely to be closed by now
        except IndexError:
            return None

    def _exchange_on(self, connection: "_SyncConnection", message: bytes, deadline: float) -> async_http.HTTPResponse:
        is_reusable = False
        try:
            connection.send(message, deadline)
            response, is_reusable = _run_coroutine(async_http.read_response(connection))
        except TimeoutError:
            raise async_http.HTTPTimeout("no answer in time") from None
        except asyncio.IncompleteReadError:
            if connection.has_received:
                raise async_http.HTTPError("the answer broke off") from None
            raise async_http.ConnectionClosed("no answer") from None
        except (ValueError, asyncio.LimitOverrunError) as error:
            raise async_http.InvalidHTTP(f"the answer is no HTTP/1.1: {error}") from None
        finally:
            if is_reusable and not self._is_closed:
                self._idle.append(connection)
            else:
                connection.close()
        return response


class _SyncConnection:
    """A connection that is read like a stream of asyncio's, by coroutines that never wait for anything but a socket."""

    def __init__(self, connected_socket: socket.socket) -> None:
        self._socket, self._data, self._deadline = connected_socket, bytearray(), 0.0
        self._poll = select.poll()
        self._poll.register(connected_socket, select.POLLIN)
        self.has_received = self._is_at_end = False  # in this exchange

    def has_no_data(self) -> bool:
        return not self._poll.poll(0)

    def send(self, message: bytes, deadline: float) -> None:
        self.has_received = self._is_at_end = False
        self._data.clear()
        self._deadline = deadline
        self._socket.settimeout(self._get_remaining_seconds())
        with contextlib.suppress(ConnectionError):  # it may have answered nevertheless
            self._socket.sendall(message)

    def close(self) -> None:
        self._socket.close()

    async def readuntil(self, separator: bytes) -> bytes:
        start = 0
        while (end := self._data.find(separator, start)) < 0:
            if len(self._data) > _MAX_HEADER_BYTES:
                raise asyncio.LimitOverrunError("its head is too long", len(self._data))
            start = max(0, len(self._data) - len(separator))
            self._fill()
        return self._take(end + len(separator))

    async def readexactly(self, size: int) -> bytes:
        while len(self._data) < size:
            self._fill()
        return self._take(size)

    async def read(self, size: int = -1) -> bytes:
        if not self._data and not self._is_at_end:
            self._receive()
        return self._take(len(self._data) if size < 0 else size)

    def feed_eof(self) -> None:
        self._is_at_end = True

    def _fill(self) -> None:
        if not self._receive():
            raise asyncio.IncompleteReadError(bytes(self._data), None)

    def _receive(self) -> bool:
        """Takes what is there, or comes; False: nothing will."""
        self._socket.settimeout(self._get_remaining_seconds())
        try:
            chunk = self._socket.recv(_CHUNK_BYTES)
        except ConnectionError:
            chunk = b""
        self.has_received = self.has_received or bool(chunk)
        self._data += chunk
        return bool(chunk)

    def _take(self, size: int) -> bytes:
        data = bytes(self._data[:size])
        del self._data[:size]
        return data

    def _get_remaining_seconds(self) -> float:
        remaining_seconds = self._deadline - time.monotonic()
        if remaining_seconds <= 0:
            raise TimeoutError
        return remaining_seconds


def _connect(request: async_http.HTTPRequest, seconds: float) -> _SyncConnection:
    try:
        new_socket = socket.create_connection((request.host, request.port), seconds)
        new_socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    except TimeoutError:
        raise async_http.ConnectionFailed(f"no connection within {seconds} seconds") from None
    except OSError as error:
        raise async_http.ConnectionFailed(str(error)) from None
    return _SyncConnection(new_socket)


def _run_coroutine[T](coroutine: Coroutine[Any, Any, T]) -> T:
    """Runs a coroutine that waits for no event loop."""
    try:
        coroutine.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]  # it is what the coroutine returns
    raise AssertionError("a wire never lets others run")

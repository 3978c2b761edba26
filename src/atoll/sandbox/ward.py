"""Watches over one candidate after the other, from inside the jail."""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from atoll.sandbox import breaches, cell, scratch, worker
from atoll.sandbox.sandbox import Limits

_LOOK_SECONDS = 0.1  # how often it is seen how much was written
_TRACE_SECONDS = 0.05  # that a candidate gets to print where it is before it is killed
_ROOM = 16 * 2**10  # bytes that an answer may have besides its value
_FORGED = "it wrote to the pipe of its result"

# Says which limit was broken.
type Tell = Callable[[breaches.Used, Limits], breaches.Breach]


class Found(NamedTuple):
    """What became of a candidate: its frame, or what is to be said instead."""

    frame: bytes
    breach: breaches.Breach | None


class Ward:
    """Forks a process for each request, watches it, and leaves nothing of it.

    Args:
        made: What binds a candidate.
        is_first: Whether this is process 1 of a namespace, where all others are candidates.
    """

    def __init__(self, made: cell.Cell, *, is_first: bool) -> None:
        self._cell, self._limits, self._is_first = made, made.limits, is_first
        self._most = self._limits.output_bytes + _ROOM
        self._disk = self._limits.disk_mb * 2**20

    def serve(self, channel: worker.Channel, streams: tuple[int, int]) -> NoReturn:
        while True:
            token, body = channel.receive()
            found = self._run(body, streams)
            is_spent = not self._clear()
            breach = found.breach or breaches.Breach("")
            line = json.dumps([breach.failure or None, is_spent, breach.note])
            channel.send(token, line.encode() + b"\n" + found.frame)

    def _run(self, body: bytearray, streams: tuple[int, int]) -> Found:
        since = time.monotonic()
        result, given = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(result)
            self._cell.run(body, given, streams)
        os.close(given)
        try:
            return self._watch(pid, result, since)
        finally:
            os.close(result)

    def _watch(self, pid: int, result: int, since: float) -> Found:
        ended = os.pidfd_open(pid)
        try:
            frame, tell = self._collect(pid, ended, result, since + self._limits.seconds)
        finally:
            os.close(ended)
        self._kill(pid)
        _, status, usage = os.wait4(pid, 0)
        memory_mb = usage.ru_maxrss / 1024
        used = breaches.Used(time.monotonic() - since, usage.ru_utime + usage.ru_stime, memory_mb)
        if tell:
            return Found(b"", tell(used, self._limits))
        code = os.waitstatus_to_exitcode(status)
        return self._judged(frame, code, used)

    def _judged(self, frame: bytearray, code: int, used: breaches.Used) -> Found:
        size = cell.FRAME.size
        if code != 0 or not frame:
            return Found(b"", breaches.ended(code, used, self._limits))
        if len(frame) < size or cell.FRAME.unpack_from(frame)[0] != len(frame) - size:
            return Found(b"", breaches.Breach(_FORGED))
        return Found(bytes(frame[size:]), None)

    def _collect(self, pid: int, ended: int, result: int, deadline: float) -> tuple[bytearray, Tell | None]:
        """Reads the result until the process ends, or must be ended: then it says of which limit to tell."""
        frame = bytearray()
        poll = select.poll()
        poll.register(result, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            ready = dict(poll.poll(1000 * max(0.0, min(left, _LOOK_SECONDS))))
            if result in ready and not self._take(result, frame):
                poll.unregister(result)
            if len(frame) > self._most:
                return frame, breaches.returned_too_much
            if ended in ready:
                while self._take(result, frame, wait=False) and len(frame) <= self._most:
                    pass
                return frame, None
            if left <= 0:
                self._trace(pid, ended)
                return frame, breaches.took_too_long
            if not ready and scratch.size(self._cell.scratch, self._disk) > self._disk:
                return frame, breaches.wrote_too_much

    @staticmethod
    def _take(result: int, frame: bytearray, *, wait: bool = True) -> bool:
        """Reads a piece; False: there will be none."""
        if not wait and not select.select([result], [], [], 0)[0]:
            return False
        chunk = os.read(result, 2**16)
        frame += chunk
        return bool(chunk)

    @staticmethod
    def _trace(pid: int, ended: int) -> None:
        """Has the candidate print where it is."""
        os.kill(pid, cell.TRACE_SIGNAL)
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        poll.poll(1000 * _TRACE_SECONDS)

    def _kill(self, pid: int) -> None:
        """Kills a candidate and, in a namespace of its own, all that it started."""
        for number in (pid, *((-1,) if self._is_first else ())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def _clear(self) -> bool:
        """Ends what a candidate started and empties its folder; False: this zygote is of no more use."""
        try:
            while children := self._reap():
                for pid in children:
                    self._kill(pid)
            scratch.wipe(self._cell.scratch)
        except OSError:
            return False
        return True

    def _reap(self) -> list[int]:
        """Buries the dead and returns the living, which were adopted when their parent ended."""
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return []
        if self._is_first:
            return [-1]
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]

"""Watches over one candidate after the other, from inside the jail."""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from atoll.sandbox import breaches, cell, pages, scratch, worker
from atoll.sandbox.limits import Limits

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


class Child(NamedTuple):
    """A process that is forked and bound, and waits for a request.

    Attributes:
        ended: A descriptor that can be read when it has ended.
        request: The pipe that takes the request.
        result: The pipe that its answer comes through.
    """

    pid: int
    ended: int
    request: int
    result: int


class Ward:
    """Forks a process for each request, watches it, and leaves nothing of it.

    The next one is forked as soon as an answer is sent, so that it is there and bound when its request comes.

    Args:
        made: What binds a candidate.
        is_first: Whether this is process 1 of a namespace, where all others are candidates.
        may_start: Whether candidates may start processes: then none waits beside them.
    """

    def __init__(self, made: cell.Cell, *, is_first: bool, may_start: bool) -> None:
        self._cell, self._limits, self._is_first = made, made.limits, is_first
        self._most = self._limits.output_bytes + _ROOM
        self._disk = self._limits.disk_mb * 2**20
        self._is_alone = not may_start and made.filter is not None

    def prepare(self) -> None:
        """Does once what every candidate needs."""
        self._ready, self._null = self._cell.ready(), worker.own(os.open(os.devnull, os.O_RDWR))
        pages.share()

    def serve(self, channel: worker.Channel) -> NoReturn:
        while True:
            spare = self._fork() if self._is_alone else None
            token, body = channel.receive()
            found = self._run(spare, body)
            is_spent = not self._clear()
            breach = found.breach or breaches.Breach("")
            line = json.dumps([breach.failure or None, is_spent, breach.note])
            channel.send(token, line.encode() + b"\n" + found.frame)

    def _fork(self) -> Child:
        taken, request = os.pipe()
        result, given = os.pipe()
        # Here, not in the child: what it need not do copies no pages.
        for fd, end in ((cell.REQUEST, taken), (cell.RESULT, given)):
            os.dup2(end, fd)
            os.close(end)
        pid = os.fork()
        if not pid:
            self._ready.run()
        for fd in (cell.REQUEST, cell.RESULT):
            os.dup2(self._null, fd)
        return Child(pid, os.pidfd_open(pid), request, result)

    def _run(self, spare: Child | None, body: bytearray) -> Found:
        if spare and _can_read(spare.ended):  # somebody killed it, before any candidate was in it
            self._bury(spare)
            spare = None
        child = spare or self._fork()
        since = time.monotonic()
        try:
            _give(child.request, body)
            return self._watch(child, since)
        finally:
            os.close(child.result)
            os.close(child.ended)

    def _bury(self, child: Child) -> None:
        for fd in (child.request, child.result, child.ended):
            os.close(fd)
        os.waitpid(child.pid, 0)

    def _watch(self, child: Child, since: float) -> Found:
        frame, tell = self._collect(child, since + self._limits.seconds)
        self._kill(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        cpu, memory_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
        used = breaches.Used(time.monotonic() - since, cpu, memory_mb)
        if tell:
            return Found(b"", tell(used, self._limits))
        return self._judged(frame, os.waitstatus_to_exitcode(status), used)

    def _judged(self, frame: bytearray, code: int, used: breaches.Used) -> Found:
        if code != 0 or not frame:
            return Found(b"", breaches.ended(code, used, self._limits))
        if not _is_whole(frame):
            return Found(b"", breaches.Breach(_FORGED))
        return Found(bytes(frame[cell.FRAME.size :]), None)

    def _collect(self, child: Child, deadline: float) -> tuple[bytearray, Tell | None]:
        """Reads the result until the process ends, or must be ended: then it says of which limit to tell."""
        frame = bytearray()
        poll = select.poll()
        poll.register(child.result, select.POLLIN)
        poll.register(child.ended, select.POLLIN)
        while True:
            left = deadline - time.monotonic()
            ready = dict(poll.poll(1000 * max(0.0, min(left, _LOOK_SECONDS))))
            if child.result in ready and (not _take(child.result, frame) or _is_whole(frame)):
                poll.unregister(child.result)  # what may come after a whole frame is read when the process has ended
            if len(frame) > self._most:
                return frame, breaches.returned_too_much
            if child.ended in ready:
                while len(frame) <= self._most and _can_read(child.result) and _take(child.result, frame):
                    pass
                return frame, None
            if left <= 0:
                _trace(child)
                return frame, breaches.took_too_long
            if not ready and scratch.size(self._cell.scratch, self._disk) > self._disk:
                return frame, breaches.wrote_too_much

    def _kill(self, pid: int) -> None:
        """Kills a candidate and, in a namespace of its own, all that it started."""
        for number in (pid, *((-1,) if self._is_first and not self._is_alone else ())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)

    def _clear(self) -> bool:
        """Ends what a candidate started and empties its folder; False: this zygote is of no more use."""
        try:
            while not self._is_alone and (children := self._reap()):
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


def _give(request: int, body: bytearray) -> None:
    """Hands a request to a process that waits for it; one that died meanwhile is told of by its status."""
    rest = memoryview(body)
    try:
        while rest:
            rest = rest[os.write(request, rest) :]
    except BrokenPipeError:
        pass
    finally:
        os.close(request)


def _take(result: int, frame: bytearray) -> bool:
    """Reads a piece; False: there will be none."""
    chunk = os.read(result, 2**16)
    frame += chunk
    return bool(chunk)


def _is_whole(frame: bytearray) -> bool:
    size = cell.FRAME.size
    return len(frame) >= size and len(frame) == size + cell.FRAME.unpack_from(frame)[0]


def _can_read(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def _trace(child: Child) -> None:
    """Has a candidate print where it is."""
    os.kill(child.pid, cell.TRACE_SIGNAL)
    poll = select.poll()
    poll.register(child.ended, select.POLLIN)
    poll.poll(1000 * _TRACE_SECONDS)

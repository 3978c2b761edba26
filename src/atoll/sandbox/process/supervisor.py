"""Watches over one candidate after the other, from inside the jail."""

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from atoll.sandbox import violations
from atoll.sandbox.limits import Limits
from atoll.sandbox.process import candidate_process, scratch_dir, shared_pages, worker

_POLL_SECONDS = 0.1  # how often it is seen how much was written
_TRACE_SECONDS = 0.05  # that a candidate gets to print where it is before it is killed
_EXTRA_BYTES = 16 * 2**10  # bytes that an answer may have besides its value
_FORGED_MESSAGE = "it wrote to the pipe of its result"

# Says which limit was broken.
type DescribeViolation = Callable[[violations.ResourceUsage, Limits], violations.LimitViolation]


class CandidateOutcome(NamedTuple):
    """What became of a candidate: its frame, or what is to be said instead."""

    frame: bytes
    violation: violations.LimitViolation | None


class Child(NamedTuple):
    """A process that is forked and bound, and waits for a request.

    Attributes:
        ended: A descriptor that can be read when it has ended.
        request: The pipe that takes the request.
        result: The pipe that its answer comes through.
    """

    pid: int
    exit_fd: int
    request_fd: int
    result_fd: int


class ChildSupervisor:
    """Forks a process for each request, watches it, and leaves nothing of it.

    The next one is forked as soon as an answer is sent, so that it is there and bound when its request comes.

    Args:
        made: What binds a candidate.
        is_first: Whether this is process 1 of a namespace, where all others are candidates.
        may_start: Whether candidates may start processes: then none waits beside them.
    """

    def __init__(self, process: candidate_process.CandidateProcess, *, is_pid_one: bool, may_start: bool) -> None:
        self._process, self._limits, self._is_pid_one = process, process.limits, is_pid_one
        self._max_frame_bytes = self._limits.output_bytes + _EXTRA_BYTES
        self._max_disk_bytes = self._limits.disk_mb * 2**20
        self._is_single_process = not may_start and process.filter is not None

    def prepare(self) -> None:
        """Does once what every candidate needs."""
        self._prepared, self._null_fd = self._process.prepare(), worker.make_private_fd(os.open(os.devnull, os.O_RDWR))
        shared_pages.prepare_for_fork()

    def serve(self, channel: worker.Channel) -> NoReturn:
        while True:
            spare = self._fork() if self._is_single_process else None
            token, body = channel.receive()
            outcome = self._run(spare, body)
            is_spent = not self._clean_up()
            violation = outcome.violation or violations.LimitViolation("")
            line = json.dumps([violation.failure or None, is_spent, violation.note])
            channel.send(token, line.encode() + b"\n" + outcome.frame)

    def _fork(self) -> Child:
        child_request, request = os.pipe()
        result, child_result = os.pipe()
        # Here, not in the child: what it need not do copies no pages.
        for fd, end in ((candidate_process.REQUEST_FD, child_request), (candidate_process.RESULT_FD, child_result)):
            os.dup2(end, fd)
            os.close(end)
        pid = os.fork()
        if not pid:
            self._prepared.run()
        for fd in (candidate_process.REQUEST_FD, candidate_process.RESULT_FD):
            os.dup2(self._null_fd, fd)
        return Child(pid, os.pidfd_open(pid), request, result)

    def _run(self, spare: Child | None, body: bytearray) -> CandidateOutcome:
        if spare and _can_read(spare.exit_fd):  # somebody killed it, before any candidate was in it
            self._discard(spare)
            spare = None
        child = spare or self._fork()
        start_time = time.monotonic()
        try:
            _send_request(child.request_fd, body)
            return self._watch(child, start_time)
        finally:
            os.close(child.result_fd)
            os.close(child.exit_fd)

    def _discard(self, child: Child) -> None:
        for fd in (child.request_fd, child.result_fd, child.exit_fd):
            os.close(fd)
        os.waitpid(child.pid, 0)

    def _watch(self, child: Child, start_time: float) -> CandidateOutcome:
        frame, describe = self._collect(child, start_time + self._limits.seconds)
        self._kill(child.pid)
        _, status, usage = os.wait4(child.pid, 0)
        cpu, memory_mb = usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024
        resource_usage = violations.ResourceUsage(time.monotonic() - start_time, cpu, memory_mb)
        if describe:
            return CandidateOutcome(b"", describe(resource_usage, self._limits))
        return self._check_frame(frame, os.waitstatus_to_exitcode(status), resource_usage)

    def _check_frame(self, frame: bytearray, code: int, usage: violations.ResourceUsage) -> CandidateOutcome:
        if code != 0 or not frame:
            return CandidateOutcome(b"", violations.describe_exit(code, usage, self._limits))
        if not _is_complete(frame):
            return CandidateOutcome(b"", violations.LimitViolation(_FORGED_MESSAGE))
        return CandidateOutcome(bytes(frame[candidate_process.FRAME.size :]), None)

    def _collect(self, child: Child, deadline: float) -> tuple[bytearray, DescribeViolation | None]:
        """Reads the result until the process ends, or must be ended: then it says of which limit to tell."""
        frame = bytearray()
        poll = select.poll()
        poll.register(child.result_fd, select.POLLIN)
        poll.register(child.exit_fd, select.POLLIN)
        while True:
            remaining = deadline - time.monotonic()
            ready = dict(poll.poll(1000 * max(0.0, min(remaining, _POLL_SECONDS))))
            if child.result_fd in ready and (not _read_chunk(child.result_fd, frame) or _is_complete(frame)):
                poll.unregister(child.result_fd)  # what may come after a whole frame is read when the process has ended
            if len(frame) > self._max_frame_bytes:
                return frame, violations.describe_output_overuse
            if child.exit_fd in ready:
                while (
                    len(frame) <= self._max_frame_bytes
                    and _can_read(child.result_fd)
                    and _read_chunk(child.result_fd, frame)
                ):
                    pass
                return frame, None
            if remaining <= 0:
                _request_traceback(child)
                return frame, violations.describe_timeout
            if (
                not ready
                and scratch_dir.measure_size(self._process.scratch, self._max_disk_bytes) > self._max_disk_bytes
            ):
                return frame, violations.describe_disk_overuse

    def _kill(self, pid: int) -> None:
        """Kills a candidate and, in a namespace of its own, all that it started."""
        for target in (pid, *((-1,) if self._is_pid_one and not self._is_single_process else ())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)

    def _clean_up(self) -> bool:
        """Ends what a candidate started and empties its folder; False: this zygote is of no more use."""
        try:
            while not self._is_single_process and (children := self._reap()):
                for pid in children:
                    self._kill(pid)
            scratch_dir.wipe(self._process.scratch)
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
        if self._is_pid_one:
            return [-1]
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            return [int(pid) for pid in file.read().split()]


def _send_request(request: int, body: bytearray) -> None:
    """Hands a request to a process that waits for it; one that died meanwhile is told of by its status."""
    remaining = memoryview(body)
    try:
        while remaining:
            remaining = remaining[os.write(request, remaining) :]
    except BrokenPipeError:
        pass
    finally:
        os.close(request)


def _read_chunk(result: int, frame: bytearray) -> bool:
    """Reads a piece; False: there will be none."""
    chunk = os.read(result, 2**16)
    frame += chunk
    return bool(chunk)


def _is_complete(frame: bytearray) -> bool:
    size = candidate_process.FRAME.size
    return len(frame) >= size and len(frame) == size + candidate_process.FRAME.unpack_from(frame)[0]


def _can_read(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def _request_traceback(child: Child) -> None:
    """Has a candidate print where it is."""
    os.kill(child.pid, candidate_process.TRACE_SIGNAL)
    poll = select.poll()
    poll.register(child.exit_fd, select.POLLIN)
    poll.poll(1000 * _TRACE_SECONDS)

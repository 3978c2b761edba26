"""Supervises candidate processes from inside the sandbox."""

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

_POLL_SECONDS = 0.05  # interval of disk usage checks
_TRACE_SECONDS = 0.05  # for a candidate to print its traceback before it is killed
_EXTRA_BYTES = 16 * 2**10  # of a result, in addition to its value
_FORGED_MESSAGE = "it wrote to the pipe of its result"

# Names the violated limit.
type DescribeViolation = Callable[[violations.ResourceUsage, Limits], violations.LimitViolation]


class CandidateOutcome(NamedTuple):
    """Result frame of a candidate, or the violation that replaces it."""

    frame: bytes
    violation: violations.LimitViolation | None


class Child(NamedTuple):
    """Forked and restricted process that waits for a request.

    Attributes:
        pid: Process id.
        exit_fd: Descriptor that becomes readable when the process ends.
        request_fd: Pipe for the request.
        result_fd: Pipe for the result.
        output_fd: File of its output.
    """

    pid: int
    exit_fd: int
    request_fd: int
    result_fd: int
    output_fd: int


class ChildSupervisor:
    """Forks a process for each request, watches it, and cleans up after it.

    The next process is forked as soon as a result is sent, so that it is restricted when its request comes.

    Args:
        process: Restrictions of candidates.
        is_pid_one: Whether this is process 1 of a namespace, where all other processes are candidates.
        may_start: Whether candidates may start processes; then no process is forked in advance.
    """

    def __init__(self, process: candidate_process.CandidateProcess, *, is_pid_one: bool, may_start: bool) -> None:
        self._process, self._limits, self._is_pid_one = process, process.limits, is_pid_one
        self._max_frame_bytes = self._limits.output_bytes + _EXTRA_BYTES
        self._max_disk_bytes = self._limits.disk_mb * 2**20
        self._is_single_process = not may_start and process.filter is not None

    def prepare(self) -> None:
        """Prepares the candidate process and the memory for forks."""
        self._output_fd = worker.make_private_fd(os.dup(1))  # the parent reads it; candidates do not have it
        self._prepared, self._null_fd = self._process.prepare(), worker.make_private_fd(os.open(os.devnull, os.O_RDWR))
        self._scratch_size = os.stat(self._process.scratch).st_size
        scratch_dir.reset_attributes(self._process.scratch, self._scratch_size)
        shared_pages.prepare_for_fork(self)
        if self._process.filter:
            self._process.filter.apply_to_server()

    def serve(self, channel: worker.Channel) -> NoReturn:
        spare: Child | None = None
        self._channel = channel
        while True:
            spare = spare or (self._fork() if self._is_single_process else None)
            token, body = channel.receive()
            if not body:
                continue  # the request to end a candidate that has just ended
            outcome = self._run(spare, body)
            spare = None
            is_spent = not self._clean_up()
            violation = outcome.violation or violations.LimitViolation("")
            line = json.dumps([violation.failure or None, is_spent, violation.note])
            channel.send(token, line.encode() + b"\n" + outcome.frame)

    def _fork(self) -> Child:
        output = self._renew_output()
        child_request, request = os.pipe()
        result, child_result = os.pipe()
        # Done before the fork: work in the child copies pages.
        for fd, end in ((candidate_process.REQUEST_FD, child_request), (candidate_process.RESULT_FD, child_result)):
            os.dup2(end, fd)
            os.close(end)
        pid = os.fork()
        if not pid:
            self._prepared.run()
        for fd in (candidate_process.REQUEST_FD, candidate_process.RESULT_FD):
            os.dup2(self._null_fd, fd)
        return Child(pid, os.pidfd_open(pid), request, result, output)

    def _renew_output(self) -> int:
        """Makes a new file for the output of the next candidate, so that nothing is left of the one before."""
        output = worker.make_private_fd(os.memfd_create("output"))
        for fd in (1, 2, self._prepared.output_fd):
            os.dup2(output, fd, inheritable=fd < 3)
        return output

    def _copy_output(self, output: int) -> None:
        """Copies the end of a candidate's output to the parent's file."""
        size, max_bytes = os.fstat(output).st_size, self._limits.output_bytes
        remaining = os.pread(output, max_bytes, max(size - max_bytes, 0))
        while remaining:
            remaining = remaining[os.write(self._output_fd, remaining) :]

    def _run(self, spare: Child | None, body: bytearray) -> CandidateOutcome:
        if spare and _can_read(spare.exit_fd):  # it was killed before it got a candidate
            self._discard(spare)
            spare = None
        child = spare or self._fork()
        start_time = time.monotonic()
        try:
            _send_request(child.request_fd, body)
            return self._watch(child, start_time)
        finally:
            self._copy_output(child.output_fd)
            for fd in (child.result_fd, child.exit_fd, child.output_fd):
                os.close(fd)

    def _discard(self, child: Child) -> None:
        for fd in (child.request_fd, child.result_fd, child.exit_fd, child.output_fd):
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
        """Reads the result until the process ends or violates a limit; returns the frame and the violation."""
        frame = bytearray()
        poll = select.poll()
        poll.register(child.result_fd, select.POLLIN)
        poll.register(child.exit_fd, select.POLLIN)
        poll.register(self._channel.fd, select.POLLIN)
        next_check = time.monotonic() + _POLL_SECONDS
        while True:
            remaining = deadline - time.monotonic()
            ready = dict(poll.poll(1000 * max(0.0, min(remaining, _POLL_SECONDS))))
            if child.result_fd in ready and (not _read_chunk(child.result_fd, frame) or _is_complete(frame)):
                poll.unregister(child.result_fd)  # data after a complete frame is read when the process has ended
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
            if self._channel.fd in ready:
                self._channel.receive()  # the parent ends the candidate, or is gone
                return frame, violations.describe_cancellation
            if remaining <= 0:
                _request_traceback(child)
                return frame, violations.describe_timeout
            if not self._is_pid_one and time.monotonic() >= next_check:  # at L3 the scratch folder has a fixed size
                if self._measure_disk(child.pid) > self._max_disk_bytes:
                    return frame, violations.describe_disk_overuse
                next_check = time.monotonic() + _POLL_SECONDS

    def _measure_disk(self, pid: int) -> int:
        """Returns the size of all files of a candidate: in its folder, removed but open, and its output."""
        pids = [pid] if self._is_single_process else scratch_dir.list_descendants(os.getpid())[1:]
        removed = scratch_dir.measure_removed_files(pids)
        return removed + scratch_dir.measure_size(self._process.scratch, self._max_disk_bytes)

    def _kill(self, pid: int) -> None:
        """Kills a candidate and, in a pid namespace, all processes that it started."""
        for target in (pid, *((-1,) if self._is_pid_one and not self._is_single_process else ())):
            with contextlib.suppress(ProcessLookupError):
                os.kill(target, signal.SIGKILL)

    def _clean_up(self) -> bool:
        """Kills leftover processes and empties the scratch folder; returns False if that failed."""
        try:
            while not self._is_single_process and (children := self._reap()):
                for pid in children:
                    self._kill(pid)
            scratch_dir.wipe(self._process.scratch)
            return scratch_dir.reset_attributes(self._process.scratch, self._scratch_size)
        except OSError:
            return False

    def _reap(self) -> list[int]:
        """Reaps dead children and returns live ones, which were adopted when their parent ended."""
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
    """Sends a request to a waiting process; if it died, its exit status says so later."""
    remaining = memoryview(body)
    try:
        while remaining:
            remaining = remaining[os.write(request, remaining) :]
    except BrokenPipeError:
        pass
    finally:
        os.close(request)


def _read_chunk(result: int, frame: bytearray) -> bool:
    """Appends a chunk to the frame; returns False at the end."""
    chunk = os.read(result, 2**16)
    frame += chunk
    return bool(chunk)


def _is_complete(frame: bytearray) -> bool:
    size = candidate_process.FRAME.size
    return len(frame) >= size and len(frame) == size + candidate_process.FRAME.unpack_from(frame)[0]


def _can_read(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def _request_traceback(child: Child) -> None:
    """Makes a candidate print its traceback."""
    os.kill(child.pid, candidate_process.TRACE_SIGNAL)
    poll = select.poll()
    poll.register(child.exit_fd, select.POLLIN)
    poll.poll(1000 * _TRACE_SECONDS)

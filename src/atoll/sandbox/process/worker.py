"""The process in which candidates run.

Started as a script of its own, it imports nothing but the standard library until it unpacks the job, so that it is
there in a few hundredths of a second wherever it was started. The parent imports the module for the form of a frame.
"""

import _thread
import contextlib
import fcntl
import io
import json
import os
import pickle
import resource
import signal
import struct
import sys
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn

# A frame, either way: the token of the request, the size of what follows, and that, which is JSON but for the job.
FRAME_HEADER = struct.Struct("!16sQ")
EXIT_CHANNEL_LOST = 70  # the exit status of a worker that can no longer answer
MAX_FILE_BYTES = 256 * 2**20
_FIRST_PRIVATE_FD = 64  # descriptors of our own start here, out of the way of those that a candidate opens and closes
_MAX_ERROR_CHARS = 500  # characters that are kept of what an exception says
_MIN_FREE_BYTES = 16 * 2**20  # bytes that a job must leave to the candidate for the memory limit to make sense


class WorkerSettings(NamedTuple):
    """What the parent says before anything else.

    Attributes:
        path: Where modules are looked for: the parent's `sys.path`.
        desk: The folder in which every request starts; the parent keeps it empty.
        seconds: When the alarm rings that ends a worker whose parent does not.
    """

    path: list[str]
    desk: str
    seconds: float
    memory_mb: int | None
    output_bytes: int


class JobResult(NamedTuple):
    """What goes back: `value` is JSON already; a worker that is spent wants to be replaced."""

    failure: str | None
    is_spent: bool = False
    value: str = "null"

    def encode(self) -> bytes:
        return f"[{json.dumps(self.failure)},{json.dumps(self.is_spent)},{self.value}]".encode()


class Channel:
    """The worker's end of the line to its parent."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def receive(self) -> tuple[bytes, bytearray]:
        """Waits for a frame and returns its token and body; leaves when the parent has gone."""
        token, size = FRAME_HEADER.unpack(self._read(FRAME_HEADER.size))
        return token, self._read(size)

    def send(self, token: bytes, body: bytes) -> None:
        remaining = memoryview(FRAME_HEADER.pack(token, len(body)) + body)
        try:
            while remaining:
                remaining = remaining[os.write(self._fd, remaining) :]
        except OSError:
            os._exit(EXIT_CHANNEL_LOST)

    def _read(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = os.read(self._fd, min(size - len(data), 2**20))
            except OSError:
                os._exit(EXIT_CHANNEL_LOST)
            if not chunk:
                os._exit(0)  # with no farewell: what candidates left for the exit must not run
            data += chunk
        return data


class OutputTail(io.RawIOBase):
    """Keeps the end of what is printed, in a file that stays below twice that size."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd, self._size = fd, max(size, 1)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        tail, file_size = view[-self._size :], os.fstat(self._fd).st_size
        if file_size + len(tail) > 2 * self._size:
            old_tail = os.pread(self._fd, self._size, max(file_size - self._size, 0))
            os.ftruncate(self._fd, 0)
            os.write(self._fd, old_tail)
        os.write(self._fd, tail)
        return len(view)


class CleanState:
    """What a request finds when it starts, whatever the one before did to it."""

    def __init__(self, folder: str, output_bytes: int) -> None:
        self._folder, self._output_bytes = folder, output_bytes
        self._output_fd, self._null_fd = make_private_fd(os.dup(1)), make_private_fd(os.open(os.devnull, os.O_RDWR))
        self._recursion_limit = sys.getrecursionlimit()
        self._stream = self._open_stream()
        self._restore_streams()

    @property
    def descriptors(self) -> tuple[int, int]:
        """What it keeps open for itself."""
        return self._output_fd, self._null_fd

    def restore(self, alarm_seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, alarm_seconds)
        sys.setrecursionlimit(self._recursion_limit)
        os.chdir(self._folder)
        self._restore_streams()

    def print_traceback(self, error: BaseException) -> None:
        """Prints where it came from, without our own part of the way there."""
        tb = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error, tb, limit=-10, file=self._stream)

    def finish(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not self._stream.closed:
            self._stream.flush()

    def _restore_streams(self) -> None:
        for fd, source in enumerate((self._null_fd, self._output_fd, self._output_fd)):
            os.dup2(source, fd)
        if self._stream.closed:
            self._stream = self._open_stream()
        sys.stdout = sys.stderr = self._stream

    def _open_stream(self) -> io.TextIOWrapper:
        # Line by line, so that what was printed before a kill is there.
        buffer = io.BufferedWriter(OutputTail(self._output_fd, self._output_bytes))
        return io.TextIOWrapper(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class Worker:
    """Answers one request after the other."""

    def __init__(self, channel: Channel, settings: WorkerSettings) -> None:
        self._channel, self._settings = channel, settings
        self._clean_state = CleanState(settings.desk, settings.output_bytes)
        self._idle_activity = _get_activity()
        self._job_run: JobRun

    def start(self, token: bytes, packed_job: bytearray) -> None:
        failure = self._load_job(packed_job)
        self._clean_state.finish()
        self._idle_activity = _get_activity()
        self._channel.send(token, JobResult(failure or limit_memory(self._settings.memory_mb)).encode())

    def serve(self) -> NoReturn:
        pid = os.getpid()
        while True:
            token, body = self._channel.receive()
            self._clean_state.restore(2 * self._settings.seconds + 10)
            result = self._job_run.run(body)
            if os.getpid() != pid:
                os._exit(0)  # the candidate forked, and this is its child that came back
            if _get_activity() != self._idle_activity:
                result = result._replace(is_spent=True)  # threads or children go on: they would disturb the next
            self._channel.send(token, result.encode())

    def _load_job(self, packed_job: bytearray) -> str | None:
        """Unpacks and makes the job, before the memory is limited: it is trusted, and may load what it likes."""
        try:
            job = pickle.loads(packed_job)()
        except BaseException as error:  # whatever it is, the parent tells the user
            return describe(error)
        self._job_run = JobRun(job, self._clean_state, self._settings.memory_mb, self._settings.output_bytes)
        return None


class JobRun:
    """One job and what one request may use of memory and output."""

    def __init__(
        self, job: Callable[[Any], Any], clean_state: CleanState, memory_mb: int | None, output_bytes: int
    ) -> None:
        self._job, self._clean_state = job, clean_state
        self._memory_mb, self._output_bytes = memory_mb, output_bytes

    def run(self, body: bytes | bytearray) -> JobResult:
        """Runs the job; the one place where a candidate's exceptions end."""
        try:
            value = self._job(json.loads(body))
            result = self._encode_value(value)
        except BaseException as error:
            result = self._handle_exception(error)
            _call_safely(self._clean_state.print_traceback, error)
        _call_safely(self._clean_state.finish)
        return result

    def _handle_exception(self, error: BaseException) -> JobResult:
        if isinstance(error, MemoryError) and self._memory_mb is not None:
            return JobResult(f"it used more than {self._memory_mb} MiB", is_spent=True)
        # A SystemError is the interpreter's own, after it ran out of memory in a bad place.
        return JobResult(f"it raised {describe(error)}", is_spent=isinstance(error, MemoryError | SystemError))

    def _encode_value(self, value: object) -> JobResult:
        try:
            text = json.dumps(value, default=_reject_value)
        except (TypeError, ValueError, RecursionError) as error:
            return JobResult(f"it returned what is no plain data: {str(error)[:_MAX_ERROR_CHARS]}")
        if len(text) > self._output_bytes:
            return JobResult(f"it returned {format_bytes(len(text))}, more than {format_bytes(self._output_bytes)}")
        return JobResult(None, value=text)


def describe(error: BaseException) -> str:
    """Returns `ValueError: what it says`, shortened, whatever the exception does when it is asked."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as str_error:
        text = f"(asked what it says, it raised {type(str_error).__name__})"
    return f"{name}: {text}"[:_MAX_ERROR_CHARS] if text else name


def format_bytes(size: int) -> str:
    """Returns a number of bytes as it is said: 1 MB is 1,000,000 bytes."""
    for unit, name in ((10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{round(size / unit, 1):g} {name}"
    return f"{size} bytes"


def _reject_value(value: object) -> NoReturn:
    raise TypeError(type(value).__name__)


def _call_safely(call: Callable[..., None], *args: object) -> None:
    """Runs what a candidate may have spoilt: an exception that cannot be printed, a stream that was detached."""
    try:
        call(*args)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"(what was printed cannot be shown: {type(error).__name__})\n".encode())


def _get_activity() -> tuple[int, bool]:
    """Returns how many threads there are, and whether there are child processes, dead or alive."""
    try:
        if hasattr(os, "waitid"):  # (not on macOS before Python 3.13)
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return _thread._count(), True
    except ChildProcessError:
        pass
    return _thread._count(), False


def limit_memory(memory_mb: int | None) -> str | None:
    """Limits the address space, or says why that would leave nothing to the candidate."""
    failure = describe_memory_shortage(memory_mb)
    if memory_mb is not None and failure is None:
        set_limit(resource.RLIMIT_AS, memory_mb * 2**20)
    return failure


def describe_memory_shortage(memory_mb: int | None) -> str | None:
    """Says why a limit of memory would leave nothing to a candidate, if so."""
    if memory_mb is not None and os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        if used + _MIN_FREE_BYTES > memory_mb * 2**20:
            return (
                f"it takes {used // 2**20} MiB before any candidate runs, and memory_mb={memory_mb} leaves too little"
            )
    return None


def make_private_fd(fd: int) -> int:
    """Moves a descriptor out of the way, where no program that a candidate starts inherits it."""
    low = min(_FIRST_PRIVATE_FD, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)  # the user may have few
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, low)
    os.close(fd)
    return moved


def set_limit(kind: int, value: int) -> None:
    resource.setrlimit(kind, clamp_limit(kind, value))


def clamp_limit(kind: int, value: int) -> tuple[int, int]:
    """Returns a limit as the kernel takes it: it can only be lowered."""
    hard_limit = resource.getrlimit(kind)[1]
    value = value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)
    return value, value


def end_with_parent(liveness_fd: int) -> None:
    """Has the kernel kill this process and its children as soon as the parent's end of a pipe is closed.

    It needs nothing of the interpreter, so it works in the middle of a C call too, and unlike PR_SET_PDEATHSIG it is
    the parent's process that counts: that signal comes when the *thread* that started the worker ends.
    """
    if hasattr(fcntl, "F_SETSIG"):  # Linux; elsewhere the end of the channel and the alarm must do
        fcntl.fcntl(liveness_fd, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(liveness_fd, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(liveness_fd, fcntl.F_SETFL, fcntl.fcntl(liveness_fd, fcntl.F_GETFL) | os.O_ASYNC)


def start_worker(channel: Channel) -> Worker:
    """Takes settings and job from the channel: a line of JSON and a pickle."""
    token, body = channel.receive()
    line, _, packed_job = body.partition(b"\n")
    settings = WorkerSettings(**json.loads(line))
    sys.path[:] = settings.path
    set_limit(resource.RLIMIT_CORE, 0)
    set_limit(resource.RLIMIT_FSIZE, MAX_FILE_BYTES)
    worker = Worker(channel, settings)
    worker.start(token, packed_job)
    return worker


def main(liveness_fd: int) -> NoReturn:
    """Serves until the parent goes; descriptor 0 is the channel, `life` closes with the parent."""
    end_with_parent(liveness_fd)
    start_worker(Channel(make_private_fd(os.dup(0)))).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))

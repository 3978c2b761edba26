"""Worker process of level L0: runs one candidate after the other.

It is started as a script and imports only the standard library until it unpickles the job, so that it starts in a few
hundredths of a second. Its parent and the fork server import the frame format and the shared functions.
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
from types import TracebackType
from typing import Any, NamedTuple, NoReturn

# Header of a frame in both directions: token of the request, size of the body. The body is JSON, except for the job.
FRAME_HEADER = struct.Struct("!16sQ")
EXIT_CHANNEL_LOST = 70  # exit status
MAX_FILE_BYTES = 256 * 2**20
_FIRST_PRIVATE_FD = 64  # above the descriptors that a candidate opens and closes
_MAX_ERROR_CHARS = 500
_MAX_MESSAGE_CHARS, _MAX_TRACEBACK_CHARS, _MAX_LINE_CHARS = 2000, 5000, 300  # of a printed traceback
_MIN_FREE_BYTES = 16 * 2**20  # that a job must leave to the candidate


class WorkerSettings(NamedTuple):
    """First message from the parent.

    Attributes:
        path: The parent's `sys.path`.
        scratch: Working folder of every request; the parent empties it.
        seconds: Time limit; an alarm ends the worker if its parent does not.
    """

    path: list[str]
    scratch: str
    seconds: float
    memory_mb: int | None
    output_bytes: int


class JobResult(NamedTuple):
    """Result of a request: `value` is JSON; a spent worker must be replaced."""

    failure: str | None
    is_spent: bool = False
    value: str = "null"

    def encode(self) -> bytes:
        return f"[{json.dumps(self.failure)},{json.dumps(self.is_spent)},{self.value}]".encode()


class Channel:
    """Worker side of the connection to the parent."""

    def __init__(self, fd: int) -> None:
        self.fd = fd

    def receive(self) -> tuple[bytes, bytearray]:
        """Waits for a frame and returns its token and body; exits when the parent is gone."""
        token, size = FRAME_HEADER.unpack(self._read(FRAME_HEADER.size))
        return token, self._read(size)

    def send(self, token: bytes, body: bytes) -> None:
        remaining = memoryview(FRAME_HEADER.pack(token, len(body)) + body)
        try:
            while remaining:
                remaining = remaining[os.write(self.fd, remaining) :]
        except OSError:
            os._exit(EXIT_CHANNEL_LOST)

    def _read(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = os.read(self.fd, min(size - len(data), 2**20))
            except OSError:
                os._exit(EXIT_CHANNEL_LOST)
            if not chunk:
                os._exit(0)  # skips exit handlers of candidates
            data += chunk
        return data


class OutputTail(io.RawIOBase):
    """Keeps the last `size` bytes of the output, in a file of at most twice that size."""

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
    """State of the process that is restored before every request: folder, streams, recursion limit."""

    def __init__(self, folder: str, output_bytes: int) -> None:
        self._folder, self._output_bytes = folder, output_bytes
        self._output_fd, self._null_fd = make_private_fd(os.dup(1)), make_private_fd(os.open(os.devnull, os.O_RDWR))
        self._recursion_limit = sys.getrecursionlimit()
        self._stream = self._open_stream()
        self._restore_streams()

    @property
    def descriptors(self) -> tuple[int, int]:
        return self._output_fd, self._null_fd

    def restore(self, alarm_seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, alarm_seconds)
        sys.setrecursionlimit(self._recursion_limit)
        os.chdir(self._folder)
        self._restore_streams()

    def print_traceback(self, error: BaseException) -> None:
        """Prints the traceback without Atoll's own frames."""
        tb = error.__traceback__.tb_next if error.__traceback__ else None
        self._stream.write(format_traceback(error, tb))

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
        # Line buffering keeps the output of a killed candidate.
        buffer = io.BufferedWriter(OutputTail(self._output_fd, self._output_bytes))
        return io.TextIOWrapper(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class Worker:
    """Serves requests from the channel."""

    def __init__(self, channel: Channel, settings: WorkerSettings) -> None:
        self._channel, self._settings = channel, settings
        self._clean_state = CleanState(settings.scratch, settings.output_bytes)
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
                os._exit(0)  # this is a child that the candidate forked
            if _get_activity() != self._idle_activity:
                result = result._replace(is_spent=True)  # threads or children still run
            self._channel.send(token, result.encode())

    def _load_job(self, packed_job: bytearray) -> str | None:
        """Creates the job before the memory is limited, because it is trusted; returns the failure."""
        try:
            job = pickle.loads(packed_job)()
        except BaseException as error:  # the parent reports it
            return describe(error)
        self._job_run = JobRun(job, self._clean_state, self._settings.memory_mb, self._settings.output_bytes)
        return None


class JobRun:
    """Runs a job on requests, with limits for memory and output."""

    def __init__(
        self, job: Callable[[Any], Any], clean_state: CleanState, memory_mb: int | None, output_bytes: int
    ) -> None:
        self._job, self._clean_state = job, clean_state
        self._memory_mb, self._output_bytes = memory_mb, output_bytes

    def run(self, body: bytes | bytearray) -> JobResult:
        """Runs the job on one request; catches all exceptions of the candidate."""
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
        # The interpreter raises SystemError when it runs out of memory in C code.
        return JobResult(f"it raised {describe(error)}", is_spent=isinstance(error, MemoryError | SystemError))

    def _encode_value(self, value: object) -> JobResult:
        try:
            text = json.dumps(value, default=_reject_value)
        except (TypeError, ValueError, RecursionError) as error:
            return JobResult(f"it returned data that is not plain JSON: {str(error)[:_MAX_ERROR_CHARS]}")
        if len(text) > self._output_bytes:
            return JobResult(f"it returned {format_bytes(len(text))}, more than {format_bytes(self._output_bytes)}")
        return JobResult(None, value=text)


def describe(error: BaseException) -> str:
    """Returns `ValueError: message`, shortened; works even if the exception's `__str__` raises."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as str_error:
        text = f"(its __str__ raised {type(str_error).__name__})"
    return f"{name}: {text}"[:_MAX_ERROR_CHARS] if text else name


def format_traceback(error: BaseException, tb: TracebackType | None) -> str:
    """Formats the last frames and the message; a long message loses its middle, and other text its start."""
    report = traceback.TracebackException(type(error), error, tb, limit=-10, compact=True)
    text, message = "".join(report.format()), "".join(report.format_exception_only())
    message = message if text.endswith(message) else ""  # groups are indented
    frames = text.removesuffix(message)
    if len(message) > _MAX_MESSAGE_CHARS:
        half = _MAX_MESSAGE_CHARS // 2
        message = f"{message[:half]} ... {message[-half:]}"
    if len(frames) > _MAX_TRACEBACK_CHARS:
        frames = "".join(f"{line[:_MAX_LINE_CHARS].rstrip()}\n" for line in frames.splitlines())
        first = frames.find("\n", max(len(frames) - _MAX_TRACEBACK_CHARS, 0)) + 1
        frames = f"Traceback (most recent call last):\n  ...\n{frames[first:]}" if first else frames
    return frames + message


def format_bytes(size: int) -> str:
    """Returns e.g. `1.5 MB`; 1 MB is 1,000,000 bytes."""
    for unit, name in ((10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{round(size / unit, 1):g} {name}"
    return f"{size} bytes"


def _reject_value(value: object) -> NoReturn:
    raise TypeError(type(value).__name__)


def _call_safely(call: Callable[..., None], *args: object) -> None:
    """Calls a function that a candidate may have broken, e.g. by an unprintable exception or a detached stream."""
    try:
        call(*args)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"(the output cannot be shown: {type(error).__name__})\n".encode())


def _get_activity() -> tuple[int, bool]:
    """Returns the number of threads, and whether there are child processes, dead or alive."""
    try:
        if hasattr(os, "waitid"):  # (not on macOS before Python 3.13)
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            return _thread._count(), True
    except ChildProcessError:
        pass
    return _thread._count(), False


def limit_memory(memory_mb: int | None) -> str | None:
    """Limits the address space; returns a failure if that leaves too little for candidates."""
    failure = describe_memory_shortage(memory_mb)
    if memory_mb is not None and failure is None:
        set_limit(resource.RLIMIT_AS, memory_mb * 2**20)
    return failure


def describe_memory_shortage(memory_mb: int | None) -> str | None:
    """Returns a failure if the memory limit leaves too little for candidates."""
    if memory_mb is not None and os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        if used + _MIN_FREE_BYTES > memory_mb * 2**20:
            return f"it uses {used // 2**20} MiB before any candidate runs; memory_mb={memory_mb} leaves too little"
    return None


def make_private_fd(fd: int) -> int:
    """Moves a descriptor to a high number, with close-on-exec."""
    low = min(_FIRST_PRIVATE_FD, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)  # the user's limit may be low
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, low)
    os.close(fd)
    return moved


def set_limit(kind: int, value: int) -> None:
    resource.setrlimit(kind, clamp_limit(kind, value))


def clamp_limit(kind: int, value: int) -> tuple[int, int]:
    """Returns soft and hard limit, not above the current hard limit."""
    hard_limit = resource.getrlimit(kind)[1]
    value = value if hard_limit == resource.RLIM_INFINITY else min(value, hard_limit)
    return value, value


def end_with_parent(liveness_fd: int) -> None:
    """Makes the kernel kill this process and its children when the parent's end of a pipe closes.

    This works during C calls too. PR_SET_PDEATHSIG would fire when the *thread* that started the worker ends.
    """
    if hasattr(fcntl, "F_SETSIG"):  # Linux; elsewhere the closed channel and the alarm end the worker
        fcntl.fcntl(liveness_fd, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(liveness_fd, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(liveness_fd, fcntl.F_SETFL, fcntl.fcntl(liveness_fd, fcntl.F_GETFL) | os.O_ASYNC)


def start_worker(channel: Channel) -> Worker:
    """Reads settings and job from the channel: a line of JSON and a pickle."""
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
    """Serves until the parent exits; descriptor 0 is the channel, `liveness_fd` closes with the parent."""
    end_with_parent(liveness_fd)
    start_worker(Channel(make_private_fd(os.dup(0)))).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))

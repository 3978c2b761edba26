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
HEAD = struct.Struct("!16sQ")
LOST = 70  # the exit status of a worker that can no longer answer
LARGEST_FILE = 256 * 2**20
_PRIVATE = 64  # descriptors of our own start here, out of the way of those that a candidate opens and closes
_LONGEST = 500  # characters that are kept of what an exception says
_ROOM = 16 * 2**20  # bytes that a job must leave to the candidate for the memory limit to make sense


class Settings(NamedTuple):
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


class Verdict(NamedTuple):
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
        token, size = HEAD.unpack(self._read(HEAD.size))
        return token, self._read(size)

    def send(self, token: bytes, body: bytes) -> None:
        rest = memoryview(HEAD.pack(token, len(body)) + body)
        try:
            while rest:
                rest = rest[os.write(self._fd, rest) :]
        except OSError:
            os._exit(LOST)

    def _read(self, size: int) -> bytearray:
        data = bytearray()
        while len(data) < size:
            try:
                chunk = os.read(self._fd, min(size - len(data), 2**20))
            except OSError:
                os._exit(LOST)
            if not chunk:
                os._exit(0)  # with no farewell: what candidates left for the exit must not run
            data += chunk
        return data


class Tail(io.RawIOBase):
    """Keeps the end of what is printed, in a file that stays below twice that size."""

    def __init__(self, fd: int, size: int) -> None:
        self._fd, self._size = fd, max(size, 1)

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1

    def write(self, data: Any, /) -> int:
        view = memoryview(data).cast("B")
        kept, there = view[-self._size :], os.fstat(self._fd).st_size
        if there + len(kept) > 2 * self._size:
            end = os.pread(self._fd, self._size, max(there - self._size, 0))
            os.ftruncate(self._fd, 0)
            os.write(self._fd, end)
        os.write(self._fd, kept)
        return len(view)


class Desk:
    """What a request finds when it starts, whatever the one before did to it."""

    def __init__(self, folder: str, output_bytes: int) -> None:
        self._folder, self._output_bytes = folder, output_bytes
        self._print, self._null = own(os.dup(1)), own(os.open(os.devnull, os.O_RDWR))
        self._depth = sys.getrecursionlimit()
        self._stream = self._open()
        self._lay_out()

    @property
    def descriptors(self) -> tuple[int, int]:
        """What it keeps open for itself."""
        return self._print, self._null

    def clear(self, alarm_seconds: float) -> None:
        signal.setitimer(signal.ITIMER_REAL, alarm_seconds)
        sys.setrecursionlimit(self._depth)
        os.chdir(self._folder)
        self._lay_out()

    def show(self, error: BaseException) -> None:
        """Prints where it came from, without our own part of the way there."""
        way = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error, way, limit=-10, file=self._stream)

    def finish(self) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        if not self._stream.closed:
            self._stream.flush()

    def _lay_out(self) -> None:
        for fd, source in enumerate((self._null, self._print, self._print)):
            os.dup2(source, fd)
        if self._stream.closed:
            self._stream = self._open()
        sys.stdout = sys.stderr = self._stream

    def _open(self) -> io.TextIOWrapper:
        # Line by line, so that what was printed before a kill is there.
        buffer = io.BufferedWriter(Tail(self._print, self._output_bytes))
        return io.TextIOWrapper(buffer, encoding="utf-8", errors="backslashreplace", line_buffering=True)


class Worker:
    """Answers one request after the other."""

    def __init__(self, channel: Channel, settings: Settings) -> None:
        self._channel, self._settings = channel, settings
        self._desk = Desk(settings.desk, settings.output_bytes)
        self._company = _company()
        self._trial: Trial

    def start(self, token: bytes, parcel: bytearray) -> None:
        failure = self._make(parcel)
        self._desk.finish()
        self._company = _company()
        self._channel.send(token, Verdict(failure or limit_memory(self._settings.memory_mb)).encode())

    def serve(self) -> NoReturn:
        pid = os.getpid()
        while True:
            token, body = self._channel.receive()
            self._desk.clear(2 * self._settings.seconds + 10)
            verdict = self._trial.run(body)
            if os.getpid() != pid:
                os._exit(0)  # the candidate forked, and this is its child that came back
            if _company() != self._company:
                verdict = verdict._replace(is_spent=True)  # threads or children go on: they would disturb the next
            self._channel.send(token, verdict.encode())

    def _make(self, parcel: bytearray) -> str | None:
        """Unpacks and makes the job, before the memory is limited: it is trusted, and may load what it likes."""
        try:
            job = pickle.loads(parcel)()
        except BaseException as error:  # whatever it is, the parent tells the user
            return told(error)
        self._trial = Trial(job, self._desk, self._settings.memory_mb, self._settings.output_bytes)
        return None


class Trial:
    """One job and what one request may use of memory and output."""

    def __init__(self, job: Callable[[Any], Any], desk: Desk, memory_mb: int | None, output_bytes: int) -> None:
        self._job, self._desk = job, desk
        self._memory_mb, self._output_bytes = memory_mb, output_bytes

    def run(self, body: bytes | bytearray) -> Verdict:
        """Runs the job; the one place where a candidate's exceptions end."""
        try:
            value = self._job(json.loads(body))
            verdict = self._returned(value)
        except BaseException as error:
            verdict = self._raised(error)
            _quietly(self._desk.show, error)
        _quietly(self._desk.finish)
        return verdict

    def _raised(self, error: BaseException) -> Verdict:
        if isinstance(error, MemoryError) and self._memory_mb is not None:
            return Verdict(f"it used more than {self._memory_mb} MiB", is_spent=True)
        # A SystemError is the interpreter's own, after it ran out of memory in a bad place.
        return Verdict(f"it raised {told(error)}", is_spent=isinstance(error, MemoryError | SystemError))

    def _returned(self, value: object) -> Verdict:
        try:
            text = json.dumps(value, default=_refuse)
        except (TypeError, ValueError, RecursionError) as error:
            return Verdict(f"it returned what is no plain data: {str(error)[:_LONGEST]}")
        if len(text) > self._output_bytes:
            return Verdict(f"it returned {amount(len(text))}, more than {amount(self._output_bytes)}")
        return Verdict(None, value=text)


def told(error: BaseException) -> str:
    """Returns `ValueError: what it says`, shortened, whatever the exception does when it is asked."""
    name = type(error).__name__
    try:
        text = str(error)
    except BaseException as other:
        text = f"(asked what it says, it raised {type(other).__name__})"
    return f"{name}: {text}"[:_LONGEST] if text else name


def amount(size: int) -> str:
    """Returns a number of bytes as it is said: 1 MB is 1,000,000 bytes."""
    for unit, name in ((10**6, "MB"), (10**3, "kB")):
        if size >= unit:
            return f"{round(size / unit, 1):g} {name}"
    return f"{size} bytes"


def _refuse(thing: object) -> NoReturn:
    raise TypeError(type(thing).__name__)


def _quietly(call: Callable[..., None], *args: object) -> None:
    """Runs what a candidate may have spoilt: an exception that cannot be printed, a stream that was detached."""
    try:
        call(*args)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.write(2, f"(what was printed cannot be shown: {type(error).__name__})\n".encode())


def _company() -> tuple[int, bool]:
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
    failure = too_little(memory_mb)
    if memory_mb is not None and failure is None:
        limit(resource.RLIMIT_AS, memory_mb * 2**20)
    return failure


def too_little(memory_mb: int | None) -> str | None:
    """Says why a limit of memory would leave nothing to a candidate, if so."""
    if memory_mb is not None and os.path.exists("/proc/self/statm"):
        with open("/proc/self/statm") as statm:
            used = int(statm.read().split()[0]) * resource.getpagesize()
        if used + _ROOM > memory_mb * 2**20:
            return (
                f"it takes {used // 2**20} MiB before any candidate runs, and memory_mb={memory_mb} leaves too little"
            )
    return None


def own(fd: int) -> int:
    """Moves a descriptor out of the way, where no program that a candidate starts inherits it."""
    low = min(_PRIVATE, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)  # the user may have few
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, low)
    os.close(fd)
    return moved


def limit(kind: int, value: int) -> None:
    resource.setrlimit(kind, bound(kind, value))


def bound(kind: int, value: int) -> tuple[int, int]:
    """Returns a limit as the kernel takes it: it can only be lowered."""
    most = resource.getrlimit(kind)[1]
    value = value if most == resource.RLIM_INFINITY else min(value, most)
    return value, value


def end_with_parent(life: int) -> None:
    """Has the kernel kill this process and its children as soon as the parent's end of a pipe is closed.

    It needs nothing of the interpreter, so it works in the middle of a C call too, and unlike PR_SET_PDEATHSIG it is
    the parent's process that counts: that signal comes when the *thread* that started the worker ends.
    """
    if hasattr(fcntl, "F_SETSIG"):  # Linux; elsewhere the end of the channel and the alarm must do
        fcntl.fcntl(life, fcntl.F_SETOWN, -os.getpgrp())
        fcntl.fcntl(life, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)


def begin(channel: Channel) -> Worker:
    """Takes settings and job from the channel: a line of JSON and a pickle."""
    token, body = channel.receive()
    line, _, parcel = body.partition(b"\n")
    settings = Settings(**json.loads(line))
    sys.path[:] = settings.path
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_FSIZE, LARGEST_FILE)
    worker = Worker(channel, settings)
    worker.start(token, parcel)
    return worker


def main(life: int) -> NoReturn:
    """Serves until the parent goes; descriptor 0 is the channel, `life` closes with the parent."""
    end_with_parent(life)
    begin(Channel(own(os.dup(0)))).serve()


if __name__ == "__main__":
    main(int(sys.argv[1]))

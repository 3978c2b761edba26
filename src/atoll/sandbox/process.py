"""A worker as its parent sees it."""

import contextlib
import fcntl
import json
import os
import re
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from atoll import errors
from atoll.candidate import NOTHING
from atoll.sandbox import scratch, worker
from atoll.sandbox.limits import Limits
from atoll.sandbox.sandbox import Answer

START_SECONDS = 300.0  # for a job that loads its data; it is trusted, but the user should not wait for ever
_LOOK_SECONDS = 0.1  # how often it is seen that a worker died whose child holds the channel open
_PIECE = 2**16  # bytes that are taken from the channel at once
_MOST_SECONDS = 1e7  # what an alarm can be set to
_LONGEST_FAILURE = 16 * 2**10  # bytes that an answer may have besides its value
FORGED = "it wrote to the channel of its worker"

_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
# What a worker inherits. LD_LIBRARY_PATH is no secret, and some interpreters do not start without it.
_KEPT = ("PATH", "LANG", "LD_LIBRARY_PATH")
_FIXED = {
    "PYTHONHASHSEED": "0",
    # Every time, and not once per process: else what a candidate hears depends on who was judged before it.
    "PYTHONWARNINGS": "always::UserWarning,always::RuntimeWarning,always::SyntaxWarning",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_ARENA_MAX": "2",  # else every thread of a candidate takes 64 MiB of its address space
}


class Breach(Exception):
    """A worker did not answer as it should; says why, and the worker is of no more use."""


class Process:
    """Starts one worker, asks it one request at a time, and ends it with all that it started.

    Used by one thread at a time; only `kill` may be called from others.
    """

    def __init__(self, limits: Limits, env: Mapping[str, str] = NOTHING) -> None:
        self._limits, self._env, self._parent = limits, env, os.getpid()
        self._seconds = min(limits.seconds, _MOST_SECONDS)
        self.is_spent = self._has_more = False
        try:
            with contextlib.ExitStack() as opened:
                self._open(opened)
                self._opened = opened.pop_all()
        except (OSError, ValueError) as error:
            raise errors.SetupError(
                f"No worker can be started with {sys.executable!r}: {error}. Run Atoll with a Python that starts, "
                "and with room for files in the temporary folder."
            ) from error
        self._poll = select.poll()
        self._poll.register(self._channel, select.POLLIN)

    def start(self, path: Sequence[str], parcel: bytes) -> None:
        """Has the worker make the job.

        Raises:
            SetupError: It cannot.
        """
        self._channel.settimeout(START_SECONDS)
        settings = json.dumps(self._settings(path)._asdict()).encode()
        try:
            failure, _, _ = _verdict(self._swap(settings + b"\n" + parcel, START_SECONDS))
        except Breach as breach:
            failure = " ".join([str(breach), *self._printed().splitlines()[-1:]])
        self._printed()  # what making the job printed is no candidate's output
        if failure is not None:
            raise errors.SetupError(
                f"The job cannot be made in its worker: {failure.rstrip('.')}. Check what it imports and loads."
            )
        self._channel.settimeout(self._seconds)

    def is_fit(self) -> bool:
        """Says whether it waits for a request: it lives, has said nothing since its last answer, and is tidy."""
        if os.getpid() != self._parent:
            return False  # a fork of the parent needs workers of its own
        is_quiet = not self._has_more and not self._poll.poll(0)
        return self._popen.poll() is None and is_quiet and self._is_tidy()

    def ask(self, request: bytes) -> Answer:
        """Has the job run on a request; afterwards the process may be spent."""
        since = time.perf_counter()
        value: Any = None
        failure: str | None
        try:
            failure, self.is_spent, value = _verdict(self._swap(request, self._limits.seconds))
        except Breach as breach:
            failure, self.is_spent = str(breach), True
        seconds = time.perf_counter() - since
        return Answer(value, failure and self._placeless(failure), self._placeless(self._printed()), seconds)

    def kill(self) -> None:
        """Kills the worker and its children; whoever waits for its answer learns that it died."""
        if os.getpid() != self._parent:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def end(self) -> None:
        """Leaves nothing of it: no process, no zombie, no descriptor, no file."""
        if os.getpid() != self._parent:
            return
        self.kill()  # before the wait where possible: as long as a dead leader is there, its number is nobody else's
        self._popen.wait()
        self._opened.close()

    def _open(self, opened: contextlib.ExitStack) -> None:
        self._folder = tempfile.mkdtemp(prefix="atoll-")
        opened.callback(_remove, self._folder)
        self._desk = os.path.join(self._folder, "desk")
        os.mkdir(self._desk)
        # Has no name, so nobody need remove it; what appends needs no offset when the file is emptied.
        self._print = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # the stack closes it
        opened.enter_context(self._print)
        self._straighten()
        self._channel, channel = socket.socketpair()
        opened.enter_context(self._channel)
        life, kept_open = os.pipe()
        opened.callback(os.close, kept_open)
        try:
            self._popen = self._spawn(channel, life)
        finally:
            channel.close()
            os.close(life)

    def _settings(self, path: Sequence[str]) -> NamedTuple:
        """Returns what the worker is told first."""
        limits = self._limits
        return worker.Settings(list(path), self._desk, self._seconds, limits.memory_mb, limits.output_bytes)

    def _program(self, life: int) -> list[str]:
        """Returns what Python is to run, and its arguments; `life` closes with the parent."""
        return [worker.__file__, str(life)]

    def _environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name in _KEPT or name.startswith("LC_")}
        return kept | _FIXED | {"HOME": self._desk, "TMPDIR": self._desk} | dict(self._env)

    def _spawn(self, channel: socket.socket, life: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-X", "utf8", "-X", "faulthandler", *self._program(life)],
            stdin=channel.fileno(),
            stdout=self._print.fileno(),
            stderr=self._print.fileno(),
            env=self._environment(),
            pass_fds=[life],
            start_new_session=True,  # Ctrl-C is for the parent alone, and one kill reaches the children too
        )

    def _swap(self, body: bytes, seconds: float) -> bytes:
        """Sends a frame and returns the one that comes back.

        Raises:
            Breach: None did.
        """
        deadline = time.monotonic() + seconds
        token = os.urandom(16)
        try:
            self._channel.sendall(worker.HEAD.pack(token, len(body)) + body)
            return self._receive(token, deadline)
        except TimeoutError:
            raise Breach(f"it took longer than {seconds:g} s") from None
        except OSError:
            raise Breach(self._death()) from None

    def _receive(self, token: bytes, deadline: float) -> bytes:
        data = self._take(bytearray(), worker.HEAD.size, deadline)
        sent, size = worker.HEAD.unpack_from(data)
        if sent != token:
            raise Breach(FORGED)
        if size > self._limits.output_bytes + _LONGEST_FAILURE:
            most = worker.amount(self._limits.output_bytes)
            raise Breach(f"it returned {worker.amount(size)}, more than {most}")
        end = worker.HEAD.size + size
        self._has_more = len(self._take(data, end, deadline)) > end
        return bytes(memoryview(data)[worker.HEAD.size : end])

    def _take(self, data: bytearray, size: int, deadline: float) -> bytearray:
        """Adds what comes until there is that much; mostly all of an answer comes at once."""
        while len(data) < size:
            self._wait(deadline)
            chunk = self._channel.recv(max(size - len(data), _PIECE))
            if not chunk:
                raise Breach(self._death())
            data += chunk
        return data

    def _wait(self, deadline: float) -> None:
        while not self._poll.poll(1000 * max(0.0, min(_LOOK_SECONDS, deadline - time.monotonic()))):
            if self._popen.poll() is not None:
                raise Breach(self._death())
            if time.monotonic() >= deadline:
                raise TimeoutError

    def _death(self) -> str:
        try:
            status = self._popen.wait(1.0)
        except subprocess.TimeoutExpired:
            status = worker.LOST
        if status == worker.LOST:
            return "it closed the channel of its worker"
        if status >= 0:
            return f"it left its process with exit status {status}"
        with contextlib.suppress(ValueError):
            return f"its process died with signal {-status} ({signal.Signals(-status).name})"
        return f"its process died with signal {-status}"

    def _placeless(self, text: str) -> str:
        """Returns a text without what differs from worker to worker: their folders, and addresses in memory."""
        return _ADDRESS.sub("0x...", text.replace(self._desk, ".").replace(self._folder, "."))

    def _printed(self) -> str:
        most, there = self._limits.output_bytes, os.fstat(self._print.fileno()).st_size
        self._straighten()
        if not there:
            return ""
        data = os.pread(self._print.fileno(), most, max(there - most, 0))
        os.ftruncate(self._print.fileno(), 0)
        return data.decode(errors="replace")

    def _straighten(self) -> None:
        """Has what is printed go to the end of its file again: a candidate shares its flags and its offset."""
        fcntl.fcntl(self._print, fcntl.F_SETFL, os.O_APPEND)
        os.lseek(self._print.fileno(), 0, os.SEEK_SET)

    def _is_tidy(self) -> bool:
        """Empties the folder in which the last request worked; False: that request spoilt the folder itself."""
        try:
            if os.listdir(self._desk):
                scratch.wipe(self._desk)
            return not os.path.islink(self._desk)
        except OSError:
            return False


def _remove(folder: str) -> None:
    """Removes a folder into which children of a dead worker may write for another moment."""
    for _ in range(50):
        with contextlib.suppress(OSError):
            scratch.wipe(folder)
            os.rmdir(folder)
        if not os.path.exists(folder):
            break
        time.sleep(0.01)


def _verdict(answer: bytes) -> tuple[str | None, bool, Any]:
    """Returns a verdict: why there is no value, whether the worker is spent, and the value.

    Raises:
        Breach: It is none.
    """
    match read(answer):
        case [str() | None as failure, bool() as is_spent, value]:
            return failure, is_spent, value
    raise Breach(FORGED)


def read(answer: bytes) -> Any:
    """Returns the answer as data, never unpickled: a candidate ran in the process that it came from."""
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return None

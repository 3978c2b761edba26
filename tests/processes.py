"""Python processes for tests, forked from a server that has imported Atoll already.

For tests of what a process does, not of how Python starts: the import of Atoll is most of the time of a short one. All
processes of a server have the same hash seed; a test that needs another starts a process of its own.
"""

import array
import atexit
import functools
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

_SERVER = Path(__file__).with_name("process_server.py")
_lock = threading.Lock()


class Process:
    """A started process, with the methods of `subprocess.Popen` that tests use.

    Attributes:
        pid: Its process id.
        returncode: Its exit status, negative for a signal; None until a call notices its end.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.pid = int(json.loads(connection.recv(64)))
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """Returns the exit status, or None if the process is alive."""
        return self._read(0.0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for the end and returns the exit status.

        Raises:
            subprocess.TimeoutExpired: The process is alive after so many seconds.
        """
        status = self._read(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
        return status

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._connection], [], [], timeout)[0]:
            self.returncode = int(json.loads(self._connection.recv(64)))
            self._connection.close()
        return self.returncode


AnyProcess = Process | subprocess.Popen[bytes]


def start(
    arguments: Sequence[str],
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    stdin: int | IO[bytes] | None = None,
    stdout: int | IO[bytes] | None = None,
    stderr: int | IO[bytes] | None = None,
    start_new_session: bool = False,
) -> AnyProcess:
    """Starts `python ARGUMENTS`: `-m MODULE`, `-c CODE` or a script, after `-P` or without it."""
    environment = dict(os.environ if env is None else env)
    if any(name.startswith("COVERAGE_") for name in environment):  # only a new Python measures its coverage
        return subprocess.Popen(
            [sys.executable, *arguments],
            cwd=cwd,
            env=environment,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=start_new_session,
        )
    request = {
        "arguments": list(arguments),
        "cwd": str(cwd or Path.cwd()),
        "env": environment,
        "start_new_session": start_new_session,
    }
    ours, theirs = socket.socketpair()
    streams = [_get_descriptor(stream, number) for number, stream in enumerate((stdin, stdout, stderr))]
    descriptors = array.array("i", [*streams, theirs.fileno()])
    with theirs, _lock:
        server, _ = _start_server(os.getpid())
        server.sendmsg([json.dumps(request).encode()], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
    return Process(ours)


def run(
    arguments: Sequence[str], *, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs `python ARGUMENTS` to its end and returns its output."""
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr, open(os.devnull, "rb") as stdin:
        process = start(arguments, cwd=cwd, env=env, stdin=stdin, stdout=stdout, stderr=stderr)
        status = process.wait()
        texts = [_read_text(file) for file in (stdout, stderr)]
    return subprocess.CompletedProcess([sys.executable, *arguments], status, *texts)


def wait_for_line(path: Path, process: AnyProcess) -> str:
    """Returns the first line that a process writes to a file."""
    while not (text := path.read_text("utf-8")).endswith("\n"):
        assert process.poll() is None
        time.sleep(0.005)
    return text.splitlines()[0]


def _get_descriptor(stream: int | IO[bytes] | None, default: int) -> int:
    return default if stream is None else stream if isinstance(stream, int) else stream.fileno()


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode()


@functools.cache
def _start_server(pid: int) -> tuple[socket.socket, subprocess.Popen[bytes]]:
    """Starts the server of this process; it ends when this process does."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 2**20)
    with theirs:
        command = [sys.executable, str(_SERVER), str(theirs.fileno())]
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=[theirs.fileno()], start_new_session=True)
    atexit.register(_end_server, pid, ours, server)
    return ours, server


def _end_server(pid: int, connection: socket.socket, server: subprocess.Popen[bytes]) -> None:
    if os.getpid() == pid:
        connection.close()
        server.wait(timeout=10)

"""Parent side of worker processes and fork servers: starts them, exchanges frames, and ends them."""

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
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from atoll import errors
from atoll.candidate import EMPTY
from atoll.sandbox.base import SandboxResult
from atoll.sandbox.levels import Probe
from atoll.sandbox.limits import Limits
from atoll.sandbox.permissions import BUILT_PROGRAMS, PACKAGES_FOLDER, Permissions, find_readable_paths
from atoll.sandbox.process import scratch_dir, worker
from atoll.sandbox.process.fork_server import NUM_OWN_PROCESSES, START_SCRIPT, ForkServerSettings

START_SECONDS = 300.0  # for a job that loads its data
_POLL_SECONDS = 0.1  # interval of liveness checks: a child of a dead worker may keep the channel open
_CHUNK_BYTES = 2**16
_MAX_SECONDS = 1e7  # maximum of an alarm
_MAX_FAILURE_BYTES = 16 * 2**10  # of a result, in addition to its value
FORGED_MESSAGE = "it wrote to the channel of its worker"
_GRACE_SECONDS = 10.0  # for a fork server to enforce the time limit and clean up
_MAX_FAILURE_CHARS = 2000
_MEMORY_ADDRESS = re.compile(r"0x[0-9a-f]{6,}")
# Some interpreters do not start without LD_LIBRARY_PATH.
_INHERITED_ENV = ("PATH", "LANG", "LD_LIBRARY_PATH")
_FIXED_ENV = {
    "PYTHONHASHSEED": "0",
    # Always, not once per process: otherwise the warnings of a candidate depend on earlier candidates.
    "PYTHONWARNINGS": "always::UserWarning,always::RuntimeWarning,always::SyntaxWarning",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "LD_BIND_NOW": "1",  # otherwise every fork looks up the same functions again
    "MALLOC_ARENA_MAX": "2",  # otherwise each thread takes 64 MiB of address space
}


class WorkerError(Exception):
    """The worker sent no valid result and cannot be used again; the message says why."""


class WorkerKilled(errors.SetupError):
    """A signal ended the worker while it started. Another worker may start."""


class WorkerClient:
    """Starts one worker, sends it one request at a time, and ends it with all its children.

    Used by one thread at a time; only `kill` may be called from other threads.
    """

    def __init__(self, limits: Limits, env: Mapping[str, str] = EMPTY) -> None:
        self._limits, self._env, self._parent_pid = limits, env, os.getpid()
        self._seconds = min(limits.seconds, _MAX_SECONDS)
        self.is_spent = self._has_more = False
        try:
            with contextlib.ExitStack() as stack:
                self._open_resources(stack)
                self._resources = stack.pop_all()
        except (OSError, ValueError) as error:
            raise errors.SetupError(
                f"Worker process {sys.executable!r} does not start: {error}. Check the Python interpreter and the free "
                "space in the temporary folder."
            ) from error
        self._poll = select.poll()
        self._poll.register(self.channel, select.POLLIN)

    def start(self, path: Sequence[str], packed_job: bytes) -> None:
        """Sends the job to the worker, which creates it.

        Raises:
            SetupError: The job cannot be created.
            WorkerKilled: A signal ended the worker.
        """
        self.channel.settimeout(START_SECONDS)
        settings = json.dumps(self._make_settings(path)._asdict()).encode()
        try:
            failure, _, _ = _parse_result(self._exchange(settings + b"\n" + packed_job, START_SECONDS))
        except WorkerError as error:
            failure = " ".join([str(error), *self._read_output().splitlines()[-1:]])
        self._read_output()  # drop the output of the job's creation
        if failure is not None:
            error_type = WorkerKilled if (self._popen.poll() or 0) < 0 else errors.SetupError
            raise error_type(
                f"The evaluator cannot be loaded in its worker: {failure.rstrip('.')}. Check its imports and data."
            )
        self.channel.settimeout(self._seconds)

    def is_ready(self) -> bool:
        """Returns whether the worker is alive, silent since its last result, and has a clean scratch folder."""
        if os.getpid() != self._parent_pid:
            return False  # a fork of the parent needs its own workers
        is_quiet = not self._has_more and not self._poll.poll(0)
        return self._popen.poll() is None and is_quiet and self._clean_scratch()

    def run_request(self, request: bytes) -> SandboxResult:
        """Runs the job on a request; afterwards the worker may be spent."""
        start_time = time.perf_counter()
        value: Any = None
        failure: str | None
        try:
            failure, self.is_spent, value = _parse_result(self._exchange(request, self._limits.seconds))
        except WorkerError as error:
            failure, self.is_spent = str(error), True
        seconds = time.perf_counter() - start_time
        return SandboxResult(
            value, failure and self._mask_locations(failure), self._mask_locations(self._read_output()), seconds
        )

    def kill(self) -> None:
        """Kills the worker and its children; a thread that waits for its result gets a failure."""
        if os.getpid() != self._parent_pid:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._popen.pid, signal.SIGKILL)

    def end(self) -> None:
        """Ends the worker and frees its resources: processes, descriptors, files."""
        if os.getpid() != self._parent_pid:
            return
        self.kill()  # before the wait: its process group id cannot be reused until then
        self._popen.wait()
        self._resources.close()

    def _open_resources(self, stack: contextlib.ExitStack) -> None:
        self._folder = tempfile.mkdtemp(prefix=f"atoll-{os.getpid()}-")
        stack.callback(scratch_dir.remove_folder, self._folder)
        self._scratch = os.path.join(self._folder, "scratch")
        os.mkdir(self._scratch)
        # Without a name, it needs no removal; opened for appending, it needs no new offset when truncated.
        self._output_file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115  # the stack closes it
        stack.enter_context(self._output_file)
        self._reset_output_file()
        self.channel, channel = socket.socketpair()
        stack.enter_context(self.channel)
        liveness_fd, liveness_write_fd = os.pipe()
        stack.callback(os.close, liveness_write_fd)
        try:
            self._popen = self._spawn(channel, liveness_fd)
        finally:
            channel.close()
            os.close(liveness_fd)

    def _make_settings(self, path: Sequence[str]) -> NamedTuple:
        """Returns the first message to the worker."""
        limits = self._limits
        return worker.WorkerSettings(list(path), self._scratch, self._seconds, limits.memory_mb, limits.output_bytes)

    def _build_command(self, liveness_fd: int) -> list[str]:
        """Returns the script and its arguments; `liveness_fd` closes with the parent."""
        return [worker.__file__, str(liveness_fd)]

    def _build_environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in os.environ if name in _INHERITED_ENV or name.startswith("LC_")}
        return inherited | _FIXED_ENV | {"HOME": self._scratch, "TMPDIR": self._scratch} | dict(self._env)

    def _spawn(self, channel: socket.socket, liveness_fd: int) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-P", "-X", "utf8", "-X", "faulthandler", *self._build_command(liveness_fd)],
            stdin=channel.fileno(),
            stdout=self._output_file.fileno(),
            stderr=self._output_file.fileno(),
            env=self._build_environment(),
            pass_fds=[liveness_fd],
            start_new_session=True,  # Ctrl-C reaches only the parent; one kill reaches all children
        )

    def _exchange(self, body: bytes, seconds: float) -> bytes:
        """Sends a frame and returns the response frame.

        Raises:
            WorkerError: No valid frame came back.
        """
        deadline = time.monotonic() + seconds
        self._token = os.urandom(16)
        with contextlib.suppress(OSError):  # the next line reports a dead worker
            self.channel.sendall(worker.FRAME_HEADER.pack(self._token, len(body)) + body)
        return self._receive_frame(deadline, seconds)

    def _receive_frame(self, deadline: float, seconds: float) -> bytes:
        try:
            return self._receive(self._token, deadline)
        except TimeoutError:
            raise WorkerError(f"it took longer than {seconds:g} s") from None
        except OSError:
            raise WorkerError(self._describe_death()) from None

    def _receive(self, token: bytes, deadline: float) -> bytes:
        data = self._read_until(bytearray(), worker.FRAME_HEADER.size, deadline)
        received_token, size = worker.FRAME_HEADER.unpack_from(data)
        if received_token != token:
            raise WorkerError(FORGED_MESSAGE)
        if size > self._limits.output_bytes + _MAX_FAILURE_BYTES:
            limit_text = worker.format_bytes(self._limits.output_bytes)
            raise WorkerError(f"it returned {worker.format_bytes(size)}, more than {limit_text}")
        end = worker.FRAME_HEADER.size + size
        self._has_more = len(self._read_until(data, end, deadline)) > end
        return bytes(memoryview(data)[worker.FRAME_HEADER.size : end])

    def _read_until(self, data: bytearray, size: int, deadline: float) -> bytearray:
        """Reads until `data` has `size` bytes; usually one read is enough."""
        while len(data) < size:
            self._wait_for_data(deadline)
            chunk = self.channel.recv(max(size - len(data), _CHUNK_BYTES))
            if not chunk:
                raise WorkerError(self._describe_death())
            data += chunk
        return data

    def _wait_for_data(self, deadline: float) -> None:
        while not self._poll.poll(1000 * max(0.0, min(_POLL_SECONDS, deadline - time.monotonic()))):
            if self._popen.poll() is not None:
                raise WorkerError(self._describe_death())
            self.check_usage()
            if time.monotonic() >= deadline:
                raise TimeoutError

    def check_usage(self) -> None:
        """Does nothing here. A fork server raises `WorkerError` if a candidate uses too many processes or memory."""

    def _describe_death(self) -> str:
        try:
            status = self._popen.wait(1.0)
        except subprocess.TimeoutExpired:
            status = worker.EXIT_CHANNEL_LOST
        if status == worker.EXIT_CHANNEL_LOST:
            return "it closed the channel of its worker"
        if status >= 0:
            return f"it left its process with exit status {status}"
        names = {number.value: f" ({number.name})" for number in signal.Signals}
        return f"its process died with signal {-status}{names.get(-status, '')}"

    def _mask_locations(self, text: str) -> str:
        """Removes text that differs between workers: their folders, and memory addresses."""
        return _MEMORY_ADDRESS.sub("0x...", text.replace(self._scratch, ".").replace(self._folder, "."))

    def _read_output(self) -> str:
        max_bytes, size = self._limits.output_bytes, os.fstat(self._output_file.fileno()).st_size
        self._reset_output_file()
        if not size:
            return ""
        data = os.pread(self._output_file.fileno(), max_bytes, max(size - max_bytes, 0))
        os.ftruncate(self._output_file.fileno(), 0)
        return data.decode(errors="replace")

    def _reset_output_file(self) -> None:
        """Restores the append flag and the offset, which a candidate shares and can change."""
        fcntl.fcntl(self._output_file, fcntl.F_SETFL, os.O_APPEND)
        os.lseek(self._output_file.fileno(), 0, os.SEEK_SET)

    def _clean_scratch(self) -> bool:
        """Empties the scratch folder; returns False if a candidate destroyed the folder itself."""
        try:
            if os.listdir(self._scratch):
                scratch_dir.wipe(self._scratch)
            return not os.path.islink(self._scratch)
        except OSError:
            return False


def _parse_result(frame: bytes) -> tuple[str | None, bool, Any]:
    """Returns failure, whether the worker is spent, and value.

    Raises:
        WorkerError: The frame is not a result.
    """
    match parse_json(frame):
        case [str() | None as failure, bool() as is_spent, value]:
            return failure, is_spent, value
    raise WorkerError(FORGED_MESSAGE)


def parse_json(data: bytes) -> Any:
    """Parses JSON from a process that ran a candidate; None: invalid. Such data is untrusted and never unpickled."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


class ForkServerClient(WorkerClient):
    """Starts one fork server, which forks a process for every request, and ends it with all its children."""

    def __init__(
        self, limits: Limits, level: str, probe_result: Probe, permissions: Permissions, link: str = ""
    ) -> None:
        self._level, self._probe, self._permissions, self._link = level, probe_result, permissions, link
        super().__init__(limits, permissions.env)
        self._seconds += _GRACE_SECONDS

    def _open_resources(self, stack: contextlib.ExitStack) -> None:
        super()._open_resources(stack)
        self._group = scratch_dir.ControlGroup.create(self._popen.pid) if self._permissions.may_start else None
        if self._group:
            stack.callback(self._group.remove)

    def start(self, path: Sequence[str], packed_job: bytes) -> None:
        super().start(path, packed_job)
        limits, memory_mb = self._limits, self._limits.memory_mb
        max_bytes = None if memory_mb is None else (memory_mb + limits.disk_mb) * 2**20  # at L3 files are in memory
        if self._group and not self._group.limit(limits.num_processes + NUM_OWN_PROCESSES, max_bytes):
            self._group = None  # `check_usage` measures instead

    def run_request(self, request: bytes) -> SandboxResult:
        """Runs the job on a request in a new process; afterwards the fork server may be spent."""
        self.begin(request)
        return self.finish()

    def begin(self, request: bytes) -> None:
        """Sends a request. `finish` must follow."""
        self._start_time, self._token = time.perf_counter(), os.urandom(16)
        with contextlib.suppress(OSError):  # `finish` reports a dead process
            self.channel.sendall(worker.FRAME_HEADER.pack(self._token, len(request)) + request)

    def check_usage(self) -> None:
        if not self._permissions.may_start or not os.path.exists("/proc/self/status"):
            return  # a single process has limits of its own
        num_servers = 2 if self._level == "L3" else 1
        overuse = scratch_dir.describe_overuse(self._group, self._popen.pid, num_servers, self._limits)
        if overuse:
            raise WorkerError(overuse)

    def cancel(self) -> None:
        """Ends the candidate of the request, if it still runs. `finish` must follow."""
        with contextlib.suppress(OSError):
            self.channel.sendall(worker.FRAME_HEADER.pack(self._token, 0))

    def finish(self) -> SandboxResult:
        """Waits for the result of the request; afterwards the fork server may be spent."""
        seconds = self._limits.seconds + _GRACE_SECONDS
        try:
            deadline = time.monotonic() + seconds - (time.perf_counter() - self._start_time)
            line, _, frame = self._receive_frame(deadline, seconds).partition(b"\n")
            failure, self.is_spent, note = json.loads(line)
            if self._group:
                self.check_usage()
        except WorkerError as error:
            failure, self.is_spent, note, frame = str(error), True, "", b""
        failure, value = (failure, None) if failure is not None else _parse_frame(frame)
        output = "\n".join(part for part in (self._read_output(), note) if part)
        seconds = time.perf_counter() - self._start_time
        return SandboxResult(value, failure and self._mask_locations(failure), self._mask_locations(output), seconds)

    def _make_settings(self, path: Sequence[str]) -> NamedTuple:
        permissions = self._permissions
        if self._link:
            permissions = replace(permissions, read_paths=(*permissions.read_paths, self._link))
        readable_paths = find_readable_paths(permissions)
        return ForkServerSettings(
            path=list(path),
            scratch=self._scratch,
            level=self._level,
            needs_user=self._probe.needs_user,
            has_filter=not self._probe.seccomp,  # an empty text: no error
            limits=asdict(self._limits),
            readable=readable_paths.readable,
            startable=readable_paths.startable,
            may_start=permissions.may_start,
            builds=BUILT_PROGRAMS in permissions.programs,
            network=permissions.network,
            link=self._link,
        )

    def _build_command(self, liveness_fd: int) -> list[str]:
        sandbox_folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        return ["-c", START_SCRIPT, str(liveness_fd), PACKAGES_FOLDER, sandbox_folder]

    def _build_environment(self) -> dict[str, str]:
        python_folder = [os.path.dirname(sys.executable)] if self._permissions.may_fork else []
        return super()._build_environment() | {"PATH": os.pathsep.join([*python_folder, os.defpath])} | dict(self._env)

    def _clean_scratch(self) -> bool:
        return True  # the fork server cleans up, and reports when it cannot


def _parse_frame(frame: bytes) -> tuple[str | None, Any]:
    """Parses the untrusted frame of a candidate process; returns failure and value."""
    match parse_json(frame):
        case [None, bool(), value]:
            return None, value
        case [str() as failure, bool(), _]:
            return failure[:_MAX_FAILURE_CHARS] or "it failed and gave no reason", None
    return "it wrote to the pipe of its result", None

"""Process of one candidate: forked, restricted, used once."""

import faulthandler
import itertools
import os
import resource
import signal
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn, Protocol, runtime_checkable

from atoll.sandbox import violations
from atoll.sandbox.limits import Limits
from atoll.sandbox.linux import landlock, seccomp, system_calls
from atoll.sandbox.process import worker

FRAME = struct.Struct("!Q")
TRACE_SIGNAL = signal.SIGUSR1  # makes the process print its traceback
RESULT_FD, REQUEST_FD = 3, 4  # pipes of a candidate; the job cannot use these numbers
_WARMUP_SOURCE = """
def f(x, *args, y=1.5, **options):
    total = [item * y for item in range(x) if item % 2]
    try:
        return {"total": sum(total), "text": f"{x}{args}", **options}
    except ValueError as error:
        raise
answer = [f(item, item, z=item) for item in range(size)]
"""
_NUM_WARMUPS = 10
_NUM_RESERVED_FDS = 8  # of the interpreter and Atoll


@runtime_checkable
class WarmableJob(Protocol):
    """Job that can run its constant part without a candidate."""

    def warm_up(self) -> None:
        """Called several times in the fork server; must leave the empty scratch folder empty."""


@dataclass(frozen=True, slots=True)
class CandidateProcess:
    """Job and restrictions of all candidates; created once, in the fork server. It is not a process yet.

    Attributes:
        job: Job to run.
        limits: Limits of one request.
        scratch: The only writable folder.
        ruleset: Files that it may open; None below L2.
        filter: System calls that it may make; None if the kernel does not have seccomp.
        num_tasks: Maximum number of threads and processes of the user, including Atoll's; None: no maximum.
        null_fds: Open descriptors that lead to /dev/null: files that the job opened for writing, such as its log.
        is_visible: Whether the fork server may inspect it by /proc, to measure its files; candidates never may.
    """

    job: Callable[[Any], Any]
    limits: Limits
    scratch: str
    ruleset: landlock.Ruleset | None
    filter: seccomp.Filter | None
    num_tasks: int | None
    null_fds: Sequence[int] = ()
    is_visible: bool = False

    def prepare(self) -> "PreparedProcess":
        """Does as much as possible before the fork, so that the candidate process starts fast."""
        return PreparedProcess(self)

    def compute_rlimits(self) -> list[tuple[int, tuple[int, int]]]:
        """Returns the kernel limits of one process: kind, and soft and hard value."""
        limits, cpu_seconds = self.limits, violations.compute_cpu_limit(self.limits)
        rlimits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: limits.disk_mb * 2**20}
        rlimits |= {resource.RLIMIT_NOFILE: max(limits.num_files, 64) + _NUM_RESERVED_FDS}
        rlimits |= {} if limits.memory_mb is None else {resource.RLIMIT_AS: limits.memory_mb * 2**20}
        rlimits |= {} if self.num_tasks is None else {resource.RLIMIT_NPROC: self.num_tasks}
        # A process can ignore the signal at the soft limit.
        return [
            (resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1)),
            *((kind, worker.clamp_limit(kind, rlimits[kind])) for kind in rlimits),
        ]


class PreparedProcess:
    """Prepared candidate process; created once in the fork server, run in every fork.

    The kernel copies each page that a fork changes, at some microseconds each. Code that ran before the fork changes
    fewer pages, so system calls are prepared and everything is warmed up here. Forks inherit the working folder, the
    streams and the signal handler.
    """

    def __init__(self, process: CandidateProcess) -> None:
        self._process = process
        self._clean_state = worker.CleanState(process.scratch, process.limits.output_bytes)
        self._job_run = _LimitedJobRun(process.job, self._clean_state, process.limits)
        self._set_death_signal, self._rlimits = system_calls.prepare_death_signal(), process.compute_rlimits()
        open_fds = sorted({REQUEST_FD, *process.null_fds, *self._clean_state.descriptors, 2**20})
        self._fd_gaps = [(low + 1, high) for low, high in itertools.pairwise(open_fds) if low + 1 < high]
        self.output_fd = self._clean_state.descriptors[0]
        violations.set_process_limits(process.limits)
        os.chdir(process.scratch)
        faulthandler.register(TRACE_SIGNAL)
        self._warm_up()

    def run(self) -> NoReturn:
        """Restricts this process, waits for the request, runs the job and exits."""
        status = 1
        try:
            _send(self._run_request().encode())
            status = 0
        finally:
            os._exit(status)  # skips exit handlers of the candidate

    def _run_request(self) -> worker.JobResult:
        try:
            self._apply_restrictions()
        except OSError as error:  # no candidate runs without its restrictions
            return worker.JobResult(f"its restrictions could not be applied: {worker.describe(error)}")
        body = _receive()
        os.close(REQUEST_FD)
        return self._job_run.run(body)

    def _apply_restrictions(self) -> None:
        process = self._process
        if self._set_death_signal() < 0:
            raise system_calls.make_os_error("prctl")
        if process.ruleset:
            process.ruleset.apply()
        for low, high in self._fd_gaps:
            os.closerange(low, high)
        for kind, pair in self._rlimits:
            resource.setrlimit(kind, pair)
        if process.is_visible:
            system_calls.show_memory()
        if process.filter:
            process.filter.apply(os.getpid())

    def _warm_up(self) -> None:
        """Runs the code of every candidate and a sample program until the interpreter has specialized them."""
        job_run = _LimitedJobRun(_run_warmup_source, self._clean_state, self._process.limits)
        for _ in range(_NUM_WARMUPS):
            job_run.run(b"20").encode()
            if isinstance(self._process.job, WarmableJob):
                self._process.job.warm_up()


class _LimitedJobRun(worker.JobRun):
    """Names the violated limit in the failure."""

    def __init__(self, job: Callable[[Any], Any], clean_state: worker.CleanState, limits: Limits) -> None:
        super().__init__(job, clean_state, limits.memory_mb, limits.output_bytes)
        self._limits = limits

    def _handle_exception(self, error: BaseException) -> worker.JobResult:
        failure = violations.describe_violation(error, self._limits)
        return super()._handle_exception(error) if failure is None else worker.JobResult(failure)


def _run_warmup_source(size: int) -> Any:
    names: dict[str, Any] = {"size": size}
    exec(compile(_WARMUP_SOURCE, "<warmup>", "exec"), names)
    return names["answer"]


def _receive() -> bytes:
    """Reads the request until the fork server closes the pipe."""
    chunks = []
    while chunk := os.read(REQUEST_FD, 2**20):
        chunks.append(chunk)
    return b"".join(chunks)


def _send(body: bytes) -> None:
    remaining = memoryview(FRAME.pack(len(body)) + body)
    while remaining:
        remaining = remaining[os.write(RESULT_FD, remaining) :]

"""The process of one candidate: forked, bound, used once."""

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
TRACE_SIGNAL = signal.SIGUSR1  # whoever gets it prints where it is
RESULT_FD, REQUEST_FD = 3, 4  # where a candidate finds its pipes; the zygote keeps both free of what its job opens
_WARMUP_SOURCE = """
def f(x, *rest, y=1.5, **named):
    total = [each * y for each in range(x) if each % 2]
    try:
        return {"total": sum(total), "text": f"{x}{rest}", **named}
    except ValueError as error:
        raise
answer = [f(each, each, z=each) for each in range(size)]
"""
_NUM_WARMUPS = 10
_NUM_RESERVED_FDS = 8  # descriptors that the interpreter and we hold


@runtime_checkable
class WarmableJob(Protocol):
    """A job that can run what is always the same in it, without a candidate."""

    def warm_up(self) -> None:
        """Called some times in the zygote, in the empty scratch folder, which it leaves empty."""


@dataclass(frozen=True, slots=True)
class CandidateProcess:
    """All that binds one candidate; made once, by the zygote.

    Attributes:
        job: What is run.
        limits: What it may use.
        scratch: The one folder in which it may write.
        ruleset: Which files it may open; None below L2.
        filter: Which calls it may make; None where the kernel has no filters.
        num_tasks: How many threads and processes the user may have, ours included; None: they are not counted apart.
        blank: Descriptors that lead nowhere and stay open: what the job opened to write to, such as its log.
    """

    job: Callable[[Any], Any]
    limits: Limits
    scratch: str
    ruleset: landlock.Ruleset | None
    filter: seccomp.Filter | None
    num_tasks: int | None
    null_fds: Sequence[int] = ()

    def prepare(self) -> "PreparedProcess":
        """Prepares all that can be before a fork, so that a candidate's process has little left to do and to copy."""
        return PreparedProcess(self)

    def compute_rlimits(self) -> list[tuple[int, tuple[int, int]]]:
        """Returns the kernel's limits of one process: which, and its soft and hard value."""
        limits, cpu_seconds = self.limits, violations.compute_cpu_limit(self.limits)
        rlimits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: limits.disk_mb * 2**20}
        rlimits |= {resource.RLIMIT_NOFILE: max(limits.num_files, 64) + _NUM_RESERVED_FDS}
        rlimits |= {} if limits.memory_mb is None else {resource.RLIMIT_AS: limits.memory_mb * 2**20}
        rlimits |= {} if self.num_tasks is None else {resource.RLIMIT_NPROC: self.num_tasks}
        # The first of the two only warns, and can be ignored.
        return [
            (resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + 1)),
            *((kind, worker.clamp_limit(kind, rlimits[kind])) for kind in rlimits),
        ]


class PreparedProcess:
    """A cell that waits for its candidates: made once, in the zygote, and run in one fork after the other.

    Every object that a fork changes is a page that the kernel must copy for it, at some microseconds each, and what
    has run some times before the fork changes less: so calls are prepared, the desk is laid, and all is rehearsed.
    Folder, streams and the handler of signals are inherited: nothing but ours runs in the zygote from here on.
    """

    def __init__(self, process: CandidateProcess) -> None:
        self._process = process
        self._clean_state = worker.CleanState(process.scratch, process.limits.output_bytes)
        self._job_run = _LimitedJobRun(process.job, self._clean_state, process.limits)
        self._set_death_signal, self._rlimits = system_calls.prepare_death_signal(), process.compute_rlimits()
        open_fds = sorted({REQUEST_FD, *process.null_fds, *self._clean_state.descriptors, 2**20})
        self._fd_gaps = [(low + 1, high) for low, high in itertools.pairwise(open_fds) if low + 1 < high]
        violations.set_process_limits(process.limits)
        os.chdir(process.scratch)
        faulthandler.register(TRACE_SIGNAL)
        self._warm_up()

    def run(self) -> NoReturn:
        """Binds this process, waits for the request, runs the job and ends."""
        status = 1
        try:
            _send(self._run_request().encode())
            status = 0
        finally:
            os._exit(status)  # with no farewell: what the candidate left for the exit must not run

    def _run_request(self) -> worker.JobResult:
        try:
            self._apply_restrictions()
        except OSError as error:  # no candidate runs in a jail that is open
            return worker.JobResult(f"the jail could not be closed: {worker.describe(error)}")
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
        if process.filter:
            process.filter.apply(os.getpid())

    def _warm_up(self) -> None:
        """Runs what every candidate runs, and a little Python, until the interpreter has nothing more to learn."""
        job_run = _LimitedJobRun(_run_warmup_source, self._clean_state, self._process.limits)
        for _ in range(_NUM_WARMUPS):
            job_run.run(b"20").encode()
            if isinstance(self._process.job, WarmableJob):
                self._cell.job.warm_up()


class _LimitedJobRun(worker.JobRun):
    """Says of every broken limit which one it was."""

    def __init__(self, job: Callable[[Any], Any], clean_state: worker.CleanState, limits: Limits) -> None:
        super().__init__(job, clean_state, limits.memory_mb, limits.output_bytes)
        self._limits = limits

    def _handle_exception(self, error: BaseException) -> worker.JobResult:
        failure = violations.describe_violation(error, self._limits)
        return super()._handle_exception(error) if failure is None else worker.JobResult(failure)


def _run_warmup_source(size: int) -> Any:
    """Compiles and runs a little."""
    names: dict[str, Any] = {"size": size}
    exec(compile(_WARMUP_SOURCE, "<rehearsal>", "exec"), names)
    return names["answer"]


def _receive() -> bytes:
    """Reads the request: all until the zygote closes the pipe."""
    chunks = []
    while chunk := os.read(REQUEST_FD, 2**20):
        chunks.append(chunk)
    return b"".join(chunks)


def _send(body: bytes) -> None:
    remaining = memoryview(FRAME.pack(len(body)) + body)
    while remaining:
        remaining = remaining[os.write(RESULT_FD, remaining) :]

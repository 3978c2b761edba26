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

from atoll.sandbox import breaches, kernel, landlock, seccomp, worker
from atoll.sandbox.limits import Limits

FRAME = struct.Struct("!Q")
TRACE_SIGNAL = signal.SIGUSR1  # whoever gets it prints where it is
RESULT, REQUEST = 3, 4  # where a candidate finds its pipes; the zygote keeps both free of what its job opens
_REHEARSAL = """
def f(x, *rest, y=1.5, **named):
    total = [each * y for each in range(x) if each % 2]
    try:
        return {"total": sum(total), "text": f"{x}{rest}", **named}
    except ValueError as error:
        raise
answer = [f(each, each, z=each) for each in range(size)]
"""
_REHEARSALS = 10
_MORE = 8  # descriptors that the interpreter and we hold


@runtime_checkable
class Rehearsing(Protocol):
    """A job that can run what is always the same in it, without a candidate."""

    def rehearse(self) -> None:
        """Called some times in the zygote, in the empty scratch folder, which it leaves empty."""


@dataclass(frozen=True, slots=True)
class Cell:
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
    blank: Sequence[int] = ()

    def ready(self) -> "Ready":
        """Prepares all that can be before a fork, so that a candidate's process has little left to do and to copy."""
        return Ready(self)

    def bounds(self) -> list[tuple[int, tuple[int, int]]]:
        """Returns the kernel's limits of one process: which, and its soft and hard value."""
        limits, cpu = self.limits, breaches.cpu_seconds(self.limits)
        wanted = {resource.RLIMIT_CORE: 0, resource.RLIMIT_FSIZE: limits.disk_mb * 2**20}
        wanted |= {resource.RLIMIT_NOFILE: max(limits.num_files, 64) + _MORE}
        wanted |= {} if limits.memory_mb is None else {resource.RLIMIT_AS: limits.memory_mb * 2**20}
        wanted |= {} if self.num_tasks is None else {resource.RLIMIT_NPROC: self.num_tasks}
        # The first of the two only warns, and can be ignored.
        return [(resource.RLIMIT_CPU, (cpu, cpu + 1)), *((kind, worker.bound(kind, wanted[kind])) for kind in wanted)]


class Ready:
    """A cell that waits for its candidates: made once, in the zygote, and run in one fork after the other.

    Every object that a fork changes is a page that the kernel must copy for it, at some microseconds each, and what
    has run some times before the fork changes less: so calls are prepared, the desk is laid, and all is rehearsed.
    Folder, streams and the handler of signals are inherited: nothing but ours runs in the zygote from here on.
    """

    def __init__(self, made: Cell) -> None:
        self._cell = made
        self._desk = worker.Desk(made.scratch, made.limits.output_bytes)
        self._trial = _Trial(made.job, self._desk, made.limits)
        self._die, self._bounds = kernel.dying_with_parent(), made.bounds()
        kept = sorted({REQUEST, *made.blank, *self._desk.descriptors, 2**20})
        self._gaps = [(low + 1, high) for low, high in itertools.pairwise(kept) if low + 1 < high]
        breaches.bind(made.limits)
        os.chdir(made.scratch)
        faulthandler.register(TRACE_SIGNAL)
        self._rehearse()

    def run(self) -> NoReturn:
        """Binds this process, waits for the request, runs the job and ends."""
        status = 1
        try:
            _send(self._verdict().encode())
            status = 0
        finally:
            os._exit(status)  # with no farewell: what the candidate left for the exit must not run

    def _verdict(self) -> worker.Verdict:
        try:
            self._bind()
        except OSError as error:  # no candidate runs in a jail that is open
            return worker.Verdict(f"the jail could not be closed: {worker.told(error)}")
        body = _receive()
        os.close(REQUEST)
        return self._trial.run(body)

    def _bind(self) -> None:
        made = self._cell
        if self._die() < 0:
            raise kernel.refusal("prctl")
        if made.ruleset:
            made.ruleset.enter()
        for low, high in self._gaps:
            os.closerange(low, high)
        for kind, pair in self._bounds:
            resource.setrlimit(kind, pair)
        if made.filter:
            made.filter.enter(os.getpid())

    def _rehearse(self) -> None:
        """Runs what every candidate runs, and a little Python, until the interpreter has nothing more to learn."""
        trial = _Trial(_rehearsed, self._desk, self._cell.limits)
        for _ in range(_REHEARSALS):
            trial.run(b"20").encode()
            if isinstance(self._cell.job, Rehearsing):
                self._cell.job.rehearse()


class _Trial(worker.Trial):
    """Says of every broken limit which one it was."""

    def __init__(self, job: Callable[[Any], Any], desk: worker.Desk, limits: Limits) -> None:
        super().__init__(job, desk, limits.memory_mb, limits.output_bytes)
        self._limits = limits

    def _raised(self, error: BaseException) -> worker.Verdict:
        failure = breaches.raised(error, self._limits)
        return super()._raised(error) if failure is None else worker.Verdict(failure)


def _rehearsed(size: int) -> Any:
    """Compiles and runs a little."""
    names: dict[str, Any] = {"size": size}
    exec(compile(_REHEARSAL, "<rehearsal>", "exec"), names)
    return names["answer"]


def _receive() -> bytes:
    """Reads the request: all until the zygote closes the pipe."""
    chunks = []
    while chunk := os.read(REQUEST, 2**20):
        chunks.append(chunk)
    return b"".join(chunks)


def _send(body: bytes) -> None:
    rest = memoryview(FRAME.pack(len(body)) + body)
    while rest:
        rest = rest[os.write(RESULT, rest) :]

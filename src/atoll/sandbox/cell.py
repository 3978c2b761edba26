"""The process of one candidate: forked, bound, used once."""

import faulthandler
import itertools
import json
import os
import resource
import select
import signal
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from atoll.sandbox import breaches, kernel, landlock, seccomp, worker
from atoll.sandbox.sandbox import Limits

FRAME = struct.Struct("!Q")
TRACE_SIGNAL = signal.SIGUSR1  # whoever gets it prints where it is
RESULT, REQUEST = 3, 4  # the zygote keeps both free of what its job opens
_REHEARSAL = """
def f(x, *rest, y=1.5, **named):
    total = [each * y for each in range(x) if each % 2]
    try:
        return {"total": sum(total), "text": f"{x}{rest}", **named}
    except ValueError as error:
        raise
answer = [f(each, each, z=each) for each in range(20)]
"""
_MORE = 8  # descriptors that the interpreter and we hold


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

    def run(self, request: int, result: int, streams: tuple[int, int]) -> NoReturn:
        """Binds this process, waits for the request, runs the job and ends.

        Args:
            request: The pipe that the request comes through.
            result: The pipe that takes the one frame of the answer.
            streams: Nothing to read, and where to print.
        """
        status = 1
        try:
            request, result = worker.own(request), worker.own(result)  # one may lie where the other goes
            os.dup2(result, RESULT)
            os.dup2(request, REQUEST)
            _send(self._verdict(streams).encode())
            status = 0
        finally:
            os._exit(status)  # with no farewell: what the candidate left for the exit must not run

    def _verdict(self, streams: tuple[int, int]) -> worker.Verdict:
        try:
            desk = self._bind(streams)
        except OSError as error:  # no candidate runs in a jail that is open
            return worker.Verdict(f"the jail could not be closed: {worker.told(error)}")
        if not select.select([REQUEST], [], [], 0)[0]:
            _rehearse()
        body = _receive()
        os.close(REQUEST)
        return _Trial(self.job, desk, self.limits).run(body)

    def _bind(self, streams: tuple[int, int]) -> worker.Desk:
        kernel.die_with_parent()
        if self.ruleset:
            self.ruleset.enter()
        for fd, source in enumerate((streams[0], streams[1], streams[1])):
            os.dup2(source, fd)
        for low, high in itertools.pairwise((REQUEST, *sorted(self.blank), 2**20)):
            os.closerange(low + 1, high)
        os.chdir(self.scratch)
        desk = worker.Desk(self.scratch, self.limits.output_bytes)
        faulthandler.register(TRACE_SIGNAL)
        self._limit()
        if self.filter:
            self.filter.enter(os.getpid())
        return desk

    def _limit(self) -> None:
        limits, cpu = self.limits, breaches.cpu_seconds(self.limits)
        breaches.bind(limits)
        resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 1))  # the first only warns, and can be ignored
        worker.limit(resource.RLIMIT_CORE, 0)
        worker.limit(resource.RLIMIT_FSIZE, limits.disk_mb * 2**20)
        worker.limit(resource.RLIMIT_NOFILE, max(limits.num_files, 64) + _MORE)
        if limits.memory_mb is not None:
            worker.limit(resource.RLIMIT_AS, limits.memory_mb * 2**20)
        if self.num_tasks is not None:
            worker.limit(resource.RLIMIT_NPROC, self.num_tasks)


class _Trial(worker.Trial):
    """Says of every broken limit which one it was."""

    def __init__(self, job: Callable[[Any], Any], desk: worker.Desk, limits: Limits) -> None:
        super().__init__(job, desk, limits.memory_mb, limits.output_bytes)
        self._limits = limits

    def _raised(self, error: BaseException) -> worker.Verdict:
        failure = breaches.raised(error, self._limits)
        return super()._raised(error) if failure is None else worker.Verdict(failure)


def _rehearse() -> None:
    """Compiles and runs a little, so that the pages this touches are our own before the clock runs."""
    names: dict[str, Any] = {}
    exec(compile(_REHEARSAL, "<rehearsal>", "exec"), names)
    json.loads(json.dumps(names["answer"]))


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

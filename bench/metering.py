"""Runs a command and measures the CPU time of all its processes, during the run and in total. Linux only."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

SAMPLE_SECONDS = 0.02
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Metered:
    """Resources used by a command.

    Attributes:
        status: Exit status; negative if a signal ended it.
        output: Standard output and error.
        began: Start time on the monotonic clock, which all processes share.
        wall_seconds: Wall time.
        cpu_seconds: User and system time of all its threads and children.
        when: Times of the samples.
        used: CPU seconds at these times.
    """

    status: int
    output: str
    began: float
    wall_seconds: float
    cpu_seconds: float
    when: Sequence[float]
    used: Sequence[float]

    def used_at(self, when: float) -> float:
        """Returns the CPU seconds at a time, interpolated between samples."""
        return float(np.interp(when, self.when, self.used))


def metered(command: Sequence[str], *, folder: Path, environment: Mapping[str, str], limit_seconds: float) -> Metered:
    """Runs a command in a folder. Kills it with all its children after the time limit."""
    when, used = [time.monotonic()], [0.0]
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while not (ended := os.wait4(process.pid, os.WNOHANG))[0]:
                # One sample misses a child that ends before it; the next counts it with its parent.
                used.append(max(used[-1], cpu_seconds(process.pid)))
                when.append(time.monotonic())
                if when[-1] - when[0] > limit_seconds:
                    kill(process.pid)
                time.sleep(SAMPLE_SECONDS)
            process.returncode = os.waitstatus_to_exitcode(ended[1])
        finally:
            if process.returncode is None:
                kill(process.pid)
                process.wait()
        output.seek(0)
        usage = ended[2]
        took = time.monotonic() - when[0]
        # A child killed together with its parent is in no total, but a sample has seen it.
        cpu = max(usage.ru_utime + usage.ru_stime, used[-1])
        return Metered(process.returncode, output.read(), when[0], took, cpu, when, used)


def cpu_seconds(pid: int) -> float:
    """Returns the CPU time of a process and its descendants; 0 if it has ended."""
    try:
        # The CPU clock of another process has nanoseconds; /proc has hundredths of a second.
        own = time.clock_gettime((~pid << 3) | 2)
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    reaped = sum(int(ticks) for ticks in fields[13:15]) / TICKS
    return own + reaped + sum(cpu_seconds(child) for child in children(pid))


def children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError):
                yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())


def kill(pid: int) -> None:
    """Kills a process and its descendants."""
    started = list(children(pid))
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)  # first, so that it starts no other process
    for child in started:
        kill(child)

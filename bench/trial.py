"""A command at the mercy of a fault: run to its end, killed at a moment, or killed when it hangs. Linux only."""

import ctypes
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import metering

LOOK_SECONDS = 0.02
GRACE_SECONDS = 2.0  # for what a command started to notice that it has gone
_PR_SET_CHILD_SUBREAPER = 36
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True, slots=True)
class Ending:
    """How a command ended.

    Attributes:
        status: What it ended with; negative: by this signal.
        output: What it printed and complained.
        wall_seconds: How long it took.
        cpu_seconds: User and system time of all its processes.
        was_late: It was killed because its time was over.
        quiet_seconds: For how long it had made no progress then.
        peak_mb: The most memory that one of its processes had.
        left_over: Processes that outlived it.
    """

    status: int
    output: str
    wall_seconds: float
    cpu_seconds: float
    was_late: bool
    quiet_seconds: float
    peak_mb: float
    left_over: int


def run(
    command: Sequence[str],
    *,
    folder: Path,
    environment: Mapping[str, str],
    limit_seconds: float,
    progress: Callable[[], int] = lambda: 0,
    kill_at: int | None = None,
) -> Ending:
    """Runs a command until it ends, its progress is that at which it shall be killed, or its time is over.

    It alone is killed, by SIGKILL, as by a user or for want of memory; at its limit all that it started goes with it.
    """
    with _adopting():
        return _attempt(command, folder, environment, limit_seconds, progress, kill_at)


@contextmanager
def _adopting() -> Iterator[None]:
    """Has orphans come to us instead of to the first process, so that they can be counted; for so long only."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _attempt(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    limit_seconds: float,
    progress: Callable[[], int],
    kill_at: int | None,
) -> Ending:
    began, peak, was_late = time.monotonic(), 0.0, False
    moved, reached, cpu = began, progress(), 0.0
    own = frozenset(metering.children(os.getpid()))
    with tempfile.TemporaryFile("w+", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while process.poll() is None:
                peak = max(peak, *(resident_mb(pid) for pid in family(process.pid)))
                cpu = max(cpu, metering.cpu_seconds(process.pid))
                if progress() > reached:
                    moved, reached = time.monotonic(), progress()
                if time.monotonic() - began > limit_seconds:
                    was_late = True
                    metering.kill(process.pid)
                elif kill_at is not None and reached >= kill_at:
                    process.send_signal(signal.SIGKILL)
                time.sleep(LOOK_SECONDS)
        finally:
            if process.returncode is None:
                metering.kill(process.pid)
                process.wait()
        took = time.monotonic() - began
        left = left_over(own)
        end_orphans(own)
        output.seek(0)
        quiet = began + took - moved
        return Ending(process.returncode, output.read(), took, cpu, was_late, quiet, peak, left)


def family(pid: int) -> list[int]:
    """Returns a process and all that it started."""
    return [pid, *(below for child in metering.children(pid) for below in family(child))]


def resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MB
    except (OSError, IndexError):
        return 0.0


def left_over(own: Collection[int]) -> int:
    """Waits a little for orphans to go and returns how many processes stay."""
    end = time.monotonic() + GRACE_SECONDS
    while (orphans := _orphans(own)) and time.monotonic() < end:
        time.sleep(LOOK_SECONDS)
    return sum(len(family(pid)) for pid in orphans)


def end_orphans(own: Collection[int]) -> None:
    while orphans := _orphans(own):
        for pid in orphans:
            metering.kill(pid)
        time.sleep(LOOK_SECONDS)


def _orphans(own: Collection[int]) -> list[int]:
    """Returns the children that we got by adoption and that run, and buries the dead."""
    adopted = [pid for pid in metering.children(os.getpid()) if pid not in own]
    return [pid for pid in adopted if not os.waitpid(pid, os.WNOHANG)[0]]

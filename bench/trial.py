"""Runs a command with a fault: until it ends, killed at a given progress, or killed when it hangs. Linux only."""

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
GRACE_SECONDS = 2.0  # time for its descendants to notice its end
_PR_SET_CHILD_SUBREAPER = 36
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


@dataclass(frozen=True, slots=True)
class Ending:
    """End of a command.

    Attributes:
        status: Exit status; negative if a signal ended it.
        output: Standard output and error.
        wall_seconds: Wall time.
        cpu_seconds: User and system time of all its processes.
        was_late: Whether it was killed at its time limit.
        quiet_seconds: Time without progress at that moment.
        peak_mb: Peak memory of its largest process.
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
    """Runs a command until it ends, reaches the progress to be killed at, or exceeds its time limit.

    A kill by SIGKILL hits only the command itself, like one by a user or for lack of memory. At the time limit all its
    descendants are killed too.
    """
    with _adopting():
        return _attempt(command, folder, environment, limit_seconds, progress, kill_at)


@contextmanager
def _adopting() -> Iterator[None]:
    """Adopts orphaned processes during the block, so that they can be counted."""
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
    """Returns a process and its descendants."""
    return [pid, *(below for child in metering.children(pid) for below in family(child))]


def resident_mb(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_MB
    except (OSError, IndexError):
        return 0.0


def left_over(own: Collection[int]) -> int:
    """Waits briefly for orphans to end. Returns the number of remaining processes."""
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
    """Returns the running adopted children, and reaps the ended ones."""
    adopted = [pid for pid in metering.children(os.getpid()) if pid not in own]
    return [pid for pid in adopted if not os.waitpid(pid, os.WNOHANG)[0]]

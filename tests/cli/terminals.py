"""`atoll` in its own process: in a pipe, on a terminal, and interrupted."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests import processes

ARGUMENTS = ["-P", "-m", "atoll"]
ATOLL = [sys.executable, *ARGUMENTS]


def environment(**changes: str) -> dict[str, str]:
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
    return plain | changes


def in_a_pipe(*arguments: str, cwd: Path | None = None, **changes: str) -> subprocess.CompletedProcess[str]:
    return processes.run([*ARGUMENTS, *arguments], cwd=cwd, env=environment(**changes))


def on_a_terminal(*arguments: str, columns: int, interrupts: int = 0, **changes: str) -> tuple[int, str]:
    """Runs `atoll` on a pseudo-terminal. Returns its exit status and output.

    Args:
        arguments: Arguments of `atoll`.
        columns: Width of the terminal.
        interrupts: Number of Ctrl-C during the run, a tenth of a second apart.
        changes: Changes of the environment.
    """
    ours, theirs = pty.openpty()
    process = processes.start(
        [*ARGUMENTS, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
        env=environment(TERM="xterm-256color", COLUMNS=str(columns), LINES="50", **changes),
    )
    os.close(theirs)
    written, pressed_at = b"", 0.0
    while process.poll() is None or select.select([ours], [], [], 0.0)[0]:
        try:
            written += os.read(ours, 65_536) if select.select([ours], [], [], 0.05)[0] else b""
        except OSError:  # raised by Linux when the other side is closed
            break
        if interrupts and b" evaluations  " in written and time.monotonic() - pressed_at > 0.1:
            process.send_signal(signal.SIGINT)
            interrupts, pressed_at = interrupts - 1, time.monotonic()
    os.close(ours)
    return process.wait(), written.decode()


def without_codes(written: str) -> str:
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", written)

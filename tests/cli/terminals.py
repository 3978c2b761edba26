"""A terminal of its own for a verb."""

import os
import pty
import select
import subprocess
import sys
from collections.abc import Sequence

PROGRAM = "import sys; sys.path.insert(0, '.'); from tests.cli import apps; from atoll import cli; sys.exit(cli.main())"


def run(arguments: Sequence[str], columns: int = 80) -> str:
    """Runs a verb on a terminal and returns all that was written there."""
    ours, theirs = pty.openpty()
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=plain | {"TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": "50"},
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
    )
    os.close(theirs)
    written = b""
    while process.poll() is None or select.select([ours], [], [], 0.0)[0]:
        try:
            written += os.read(ours, 65_536) if select.select([ours], [], [], 0.1)[0] else b""
        except OSError:  # Linux says so when the other side is closed
            break
    os.close(ours)
    assert process.wait() == 0, written.decode()
    return written.decode()

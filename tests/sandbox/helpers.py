"""Helpers for tests of sandboxes that run Python programs."""

import contextlib
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from atoll.sandbox import Limits, Sandbox

LIMITS = Limits(seconds=20.0, memory_mb=512, output_bytes=10_000)


def make_program_job() -> Any:
    """Returns a job that runs the request, a Python program, and returns its `answer`."""

    def run(program: str) -> Any:
        names: dict[str, Any] = {}
        exec(program, names)
        return names.get("answer")

    return run


def run_program(box: Sandbox, program: str) -> Any:
    result = box.run(program)
    assert result.failure is None, f"{result.failure}\n{result.output}"
    return result.value


def get_pid(box: Sandbox) -> int:
    return int(run_program(box, "import os; answer = os.getpid()"))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def list_descendants(pid: int) -> Iterator[int]:
    """Yields a process and its descendants."""
    yield pid
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                yield from list_descendants(int(child))


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.005)


def start_script(folder: Path, text: str) -> subprocess.Popen[str]:
    """Starts a script in another folder."""
    file = folder / "program.py"
    file.write_text(
        "import os, sys, time\nfrom atoll.sandbox import IsolatedSandbox, Limits, ProcessSandbox, ScoreJob\n"
        + textwrap.dedent(text),
        encoding="utf-8",
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(file)],
        cwd=folder,
        env={**os.environ, "TMPDIR": tempfile.gettempdir()},
        stdout=subprocess.PIPE,
        text=True,
    )


def list_leftovers() -> tuple[int, list[str], list[str]]:
    """Returns the descriptors, files and children that a sandbox could leave."""
    children = list[str]()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # the thread has ended
            children += (task / "children").read_text().split()
    return len(os.listdir("/proc/self/fd")), os.listdir(tempfile.gettempdir()), children

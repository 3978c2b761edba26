"""Sandboxes that run programs, and what tests ask of them."""

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


def programs() -> Any:
    """Makes a job that runs the request, a Python program, and returns its `answer`."""

    def run(program: str) -> Any:
        names: dict[str, Any] = {}
        exec(program, names)
        return names.get("answer")

    return run


def value(box: Sandbox, program: str) -> Any:
    answer = box.run(program)
    assert answer.failure is None, f"{answer.failure}\n{answer.output}"
    return answer.value


def pid_of(box: Sandbox) -> int:
    return int(value(box, "import os; answer = os.getpid()"))


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def family(pid: int) -> Iterator[int]:
    """Yields a process and all that it started and that is still below it."""
    yield pid
    with contextlib.suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            for child in Path(f"/proc/{pid}/task/{thread}/children").read_text().split():
                yield from family(int(child))


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    limit = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < limit, "waited too long"
        time.sleep(0.005)


def script(folder: Path, text: str) -> subprocess.Popen[str]:
    """Starts a program of its own in another folder."""
    file = folder / "program.py"
    file.write_text(
        "import os, sys, time\nfrom atoll.sandbox import Jail, Limits, Scoring, Workers\n" + textwrap.dedent(text),
        encoding="utf-8",
    )
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(file)],
        cwd=folder,
        env={**os.environ, "TMPDIR": tempfile.gettempdir()},
        stdout=subprocess.PIPE,
        text=True,
    )


def traces() -> tuple[int, list[str], list[str]]:
    """Returns what a sandbox could leave: descriptors, files, children."""
    children = list[str]()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            children += (task / "children").read_text().split()
    return len(os.listdir("/proc/self/fd")), os.listdir(tempfile.gettempdir()), children

"""Faults from outside: each function starts a run, disturbs it and waits for its end."""

import contextlib
import os
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from atoll import testing
from tests import processes
from tests.store import mounts

LIMIT_SECONDS = 180.0
JUMPING_CLOCK = """\
import datetime, random, time
real, jumps = time.time, random.Random(0)
def jumping():
    return real() + (jumps.choice((-86400.0, 86400.0)) if jumps.random() < 0.2 else 0.0)
class Jumping(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.fromtimestamp(jumping(), tz)
time.time, datetime.datetime = jumping, Jumping
"""


class Model:
    """An LLM whose server can go away and come back."""

    def __init__(self, make_response: Callable[[str, int], str]) -> None:
        self._answer, self._earlier = make_response, 0
        self._server = testing.ModelServer(make_response)

    @property
    def name(self) -> str:
        return f"openai:m@{self._server.url}"

    @property
    def num_requests(self) -> int:
        return self._earlier + self._server.num_requests

    def go_away(self, seconds: float) -> None:
        port = int(self._server.url.rpartition(":")[2].partition("/")[0])
        self.close()
        time.sleep(seconds)
        self._server = testing.ModelServer(self._answer, port=port)

    def close(self) -> None:
        self._server.close()
        self._earlier = self.num_requests  # including requests during the close


class DisturbedRun(NamedTuple):
    """A run that faults disturb.

    Attributes:
        folder: Folder of its store and output.
        command: Arguments that start or resume it.
        model: Its LLM; None for a run without one.
        rng: Random generator of the faults.
        sessions: Its process sessions.
    """

    folder: Path
    command: Sequence[str]
    model: Model | None
    rng: Random
    sessions: list[int]

    @property
    def store(self) -> Path:
        return self.folder / "kept.db"

    def start(self, **options: Any) -> processes.AnyProcess:
        """Starts it in a new process session; with options, in a new Python."""
        arguments = ["-P", "-m", "atoll", *self.command, "--store", str(self.store), "--json"]
        with (
            (self.folder / "out").open("wb") as out,
            (self.folder / "err").open("wb") as err,
            open(os.devnull, "rb") as null,
        ):
            settings: dict[str, Any] = {"cwd": self.folder, "stdin": null, "stdout": out, "stderr": err}
            started = (
                subprocess.Popen([sys.executable, *arguments], start_new_session=True, **settings, **options)
                if options
                else processes.start(arguments, start_new_session=True, **settings)
            )
        self.sessions.append(started.pid)
        return started

    def wait_for_work(self, victim: processes.AnyProcess) -> None:
        """Waits until this start has stored something, or has ended."""
        size, deadline = _size(self.store), time.monotonic() + LIMIT_SECONDS
        while _size(self.store) == size and victim.poll() is None:
            assert time.monotonic() < deadline, self.read_errors()
            time.sleep(0.005)
        time.sleep(self.rng.random() * 0.4)

    def list_remaining_processes(self) -> list[int]:
        """Returns the processes that outlived their session."""
        return [pid for session in self.sessions for pid in _alive(session)]

    def read_errors(self) -> str:
        return (self.folder / "err").read_text()


def coordinator_killed(disturbed_run: DisturbedRun) -> None:
    victim = disturbed_run.start()
    disturbed_run.wait_for_work(victim)
    victim.kill()
    victim.wait()


def worker_killed(disturbed_run: DisturbedRun) -> None:
    victim = disturbed_run.start()
    disturbed_run.wait_for_work(victim)
    for pid in descendants(victim.pid)[:2]:
        _kill(pid)
    stop(victim)


def model_down(disturbed_run: DisturbedRun) -> None:
    """The model's server goes away and comes back on the same port while the run is at work."""
    victim = disturbed_run.start()
    disturbed_run.wait_for_work(victim)
    if disturbed_run.model is not None:
        disturbed_run.model.go_away(disturbed_run.rng.random())
    stop(victim)


def disk_full(disturbed_run: DisturbedRun) -> None:
    room = _size(disturbed_run.store) + disturbed_run.rng.choice((0, 8_192, 65_536))
    limit = max(room, 65_536)
    _starve(disturbed_run, resource.RLIMIT_FSIZE, limit)


def store_locked(disturbed_run: DisturbedRun) -> None:
    """Another program holds the store for a while."""
    other = sqlite3.connect(disturbed_run.store, isolation_level=None, timeout=60)
    other.execute("BEGIN IMMEDIATE")
    victim = disturbed_run.start()
    time.sleep(1.0 + disturbed_run.rng.random())
    other.execute("ROLLBACK")
    other.close()
    disturbed_run.wait_for_work(victim)
    stop(victim)


def few_descriptors(disturbed_run: DisturbedRun) -> None:
    _starve(disturbed_run, resource.RLIMIT_NOFILE, disturbed_run.rng.choice((24, 48)))


def torn_page(disturbed_run: DisturbedRun) -> None:
    """The power fails in the middle of a write: the end of the log of writes is rubbish."""
    coordinator_killed(disturbed_run)
    log = Path(f"{disturbed_run.store}-wal")
    if _size(log):
        with log.open("r+b") as file:
            file.seek(-disturbed_run.rng.randrange(1, min(4096, _size(log))), os.SEEK_END)
            file.write(disturbed_run.rng.randbytes(64))


def clock_jumps(disturbed_run: DisturbedRun) -> None:
    (disturbed_run.folder / "clock").mkdir(exist_ok=True)
    (disturbed_run.folder / "clock" / "sitecustomize.py").write_text(JUMPING_CLOCK)
    victim = disturbed_run.start(env={**os.environ, "PYTHONPATH": str(disturbed_run.folder / "clock")})
    disturbed_run.wait_for_work(victim)
    stop(victim)


def read_only(disturbed_run: DisturbedRun) -> None:
    """The store lies where nothing may be written."""
    inner = [sys.executable, "-P", "-m", "atoll", *disturbed_run.command, "--store", str(disturbed_run.store)]
    command = mounts.read_only(disturbed_run.folder, *inner)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    assert done.returncode in {1, 2}, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


FAULTS: dict[str, Callable[[DisturbedRun], None]] = {
    item.__name__: item
    for item in (
        coordinator_killed,
        worker_killed,
        model_down,
        disk_full,
        store_locked,
        few_descriptors,
        torn_page,
        clock_jumps,
        read_only,
    )
}


def descendants(pid: int) -> list[int]:
    """Returns the processes below one, the nearest first."""
    result = list[int]()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = [int(item) for item in task.read_text().split()]
        except OSError:
            continue
        result += below + [item for child in below for item in descendants(child)]
    return result


def _alive(session: int) -> list[int]:
    """Returns the processes of a session that are still alive."""
    result = list[int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            result.append(int(stat.parent.name))
    return result


def stop(victim: processes.AnyProcess) -> None:
    """Asks a run to stop, as Ctrl-C does, and waits."""
    if victim.poll() is None:
        victim.send_signal(signal.SIGINT)
    victim.wait(LIMIT_SECONDS)


def _starve(disturbed_run: DisturbedRun, kind: int, limit: int) -> None:
    """Has a run go as far as it can with little; what measures coverage would fail for want of it too, and say so."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    _over(disturbed_run.start(preexec_fn=lambda: resource.setrlimit(kind, (limit, limit)), env=alone), disturbed_run)


def _over(victim: processes.AnyProcess, disturbed_run: DisturbedRun) -> None:
    """Waits for the end of a run that can hardly work: one sentence, no traceback."""
    try:
        victim.wait(4 + 4 * disturbed_run.rng.random())
    except subprocess.TimeoutExpired:
        stop(victim)
    assert "Traceback" not in disturbed_run.read_errors(), disturbed_run.read_errors()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _size(path: Path) -> int:
    return sum(item.stat().st_size for item in (path, Path(f"{path}-wal")) if item.exists())

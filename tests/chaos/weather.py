"""Storms: what may happen to a run from outside, each as one call that starts it, harms it and waits for its end."""

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
from typing import NamedTuple

from atoll import testing
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
    """A model whose server may go away and come back."""

    def __init__(self, answer: Callable[[str, int], str]) -> None:
        self._answer, self._earlier = answer, 0
        self._server = testing.ModelServer(answer)

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
        self._earlier = self.num_requests  # those that came while it closed too


class Voyage(NamedTuple):
    """A run that goes through storms.

    Attributes:
        folder: Where its store and its output are.
        command: What starts it or goes on with it.
        model: Whom it asks; None: nobody.
        rng: The dice of the weather.
        sessions: The process sessions it was in.
    """

    folder: Path
    command: Sequence[str]
    model: Model | None
    rng: Random
    sessions: list[int]

    @property
    def store(self) -> Path:
        return self.folder / "kept.db"

    def start(self, **options: object) -> subprocess.Popen[bytes]:
        """Starts it in a session of its own."""
        command = [sys.executable, "-P", "-m", "atoll", *self.command, "--store", str(self.store), "--json"]
        with (self.folder / "out").open("wb") as out, (self.folder / "err").open("wb") as err:
            started: subprocess.Popen[bytes] = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
                **options,  # type: ignore[call-overload]
            )
        self.sessions.append(started.pid)
        return started

    def wait_for_work(self, victim: subprocess.Popen[bytes]) -> None:
        """Waits until something of this start is stored, or it is over."""
        size, deadline = _size(self.store), time.monotonic() + LIMIT_SECONDS
        while _size(self.store) == size and victim.poll() is None:
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.005)
        time.sleep(self.rng.random() * 0.4)

    def left_over(self) -> list[int]:
        """Returns the processes that outlived their session."""
        return [pid for session in self.sessions for pid in _alive(session)]

    def said(self) -> str:
        return (self.folder / "err").read_text()


def coordinator_killed(voyage: Voyage) -> None:
    victim = voyage.start()
    voyage.wait_for_work(victim)
    victim.kill()
    victim.wait()


def worker_killed(voyage: Voyage) -> None:
    victim = voyage.start()
    voyage.wait_for_work(victim)
    for pid in descendants(victim.pid)[:2]:
        _kill(pid)
    stop(victim)


def model_down(voyage: Voyage) -> None:
    """The model's server goes away and comes back on the same port while the run is at work."""
    victim = voyage.start()
    voyage.wait_for_work(victim)
    if voyage.model is not None:
        voyage.model.go_away(voyage.rng.random())
    stop(victim)


def disk_full(voyage: Voyage) -> None:
    room = _size(voyage.store) + voyage.rng.choice((0, 8_192, 65_536))
    limit = max(room, 65_536)
    _starve(voyage, resource.RLIMIT_FSIZE, limit)


def store_locked(voyage: Voyage) -> None:
    """Another program holds the store for a while."""
    other = sqlite3.connect(voyage.store, isolation_level=None, timeout=60)
    other.execute("BEGIN IMMEDIATE")
    victim = voyage.start()
    time.sleep(1.0 + voyage.rng.random())
    other.execute("ROLLBACK")
    other.close()
    voyage.wait_for_work(victim)
    stop(victim)


def few_descriptors(voyage: Voyage) -> None:
    _starve(voyage, resource.RLIMIT_NOFILE, voyage.rng.choice((24, 48)))


def torn_page(voyage: Voyage) -> None:
    """The power fails in the middle of a write: the end of the log of writes is rubbish."""
    coordinator_killed(voyage)
    log = Path(f"{voyage.store}-wal")
    if _size(log):
        with log.open("r+b") as file:
            file.seek(-voyage.rng.randrange(1, min(4096, _size(log))), os.SEEK_END)
            file.write(voyage.rng.randbytes(64))


def clock_jumps(voyage: Voyage) -> None:
    (voyage.folder / "clock").mkdir(exist_ok=True)
    (voyage.folder / "clock" / "sitecustomize.py").write_text(JUMPING_CLOCK)
    victim = voyage.start(env={**os.environ, "PYTHONPATH": str(voyage.folder / "clock")})
    voyage.wait_for_work(victim)
    stop(victim)


def read_only(voyage: Voyage) -> None:
    """The store lies where nothing may be written."""
    inner = [sys.executable, "-P", "-m", "atoll", *voyage.command, "--store", str(voyage.store)]
    command = mounts.read_only(voyage.folder, *inner)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT_SECONDS)
    assert done.returncode in {1, 2}, done.stderr
    assert "Traceback" not in done.stderr, done.stderr


STORMS: dict[str, Callable[[Voyage], None]] = {
    each.__name__: each
    for each in (
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
    found = list[int]()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            below = [int(each) for each in task.read_text().split()]
        except OSError:
            continue
        found += below + [each for child in below for each in descendants(child)]
    return found


def _alive(session: int) -> list[int]:
    """Returns the processes of a session that are still alive."""
    found = list[int]()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.append(int(stat.parent.name))
    return found


def stop(victim: subprocess.Popen[bytes]) -> None:
    """Asks a run to stop, as Ctrl-C does, and waits."""
    if victim.poll() is None:
        victim.send_signal(signal.SIGINT)
    victim.wait(LIMIT_SECONDS)


def _starve(voyage: Voyage, kind: int, limit: int) -> None:
    """Has a run go as far as it can with little; what measures coverage would fail for want of it too, and say so."""
    alone = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
    _over(voyage.start(preexec_fn=lambda: resource.setrlimit(kind, (limit, limit)), env=alone), voyage)


def _over(victim: subprocess.Popen[bytes], voyage: Voyage) -> None:
    """Waits for the end of a run that can hardly work: one sentence, no traceback."""
    try:
        victim.wait(4 + 4 * voyage.rng.random())
    except subprocess.TimeoutExpired:
        stop(victim)
    assert "Traceback" not in voyage.said(), voyage.said()


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _size(path: Path) -> int:
    return sum(each.stat().st_size for each in (path, Path(f"{path}-wal")) if each.exists())

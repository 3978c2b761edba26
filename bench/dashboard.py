"""Dashboard server with 100,000 candidates, 1,000,000 events and 50 clients, and with a run in progress.

    scripts/bench dashboard                    # about 10 minutes
    scripts/bench dashboard --steps 5000       # a small store, for a trial
    scripts/bench dashboard --store big.db     # keep the store and use it again
    scripts/bench dashboard --real-time        # needs root; for a machine with other load

The store is written through the journal, as in a run. The server is a separate process. Its CPU time is shown with the
wall time, because other load affects CPU time much less. `cold` is the first request after its start, `warm` the best
of several later ones. The clients and the run are in `bench/dashboard_watch.py`.
"""

import argparse
import contextlib
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx2

from atoll import journal, store
from bench import dashboard_watch, outcome

RUN = "big"
REPEATS = 5
PORTION = 5000
GOALS = {"first view": 1000.0, "filter": 300.0}
BODY = "def search(n):\n" + "".join(f"    x = {i} * n\n" for i in range(20)) + "    return x\n"

FIRST_VIEW = (
    "/",
    "/api/session",
    "/api/runs",
    f"/api/runs/{RUN}",
    f"/api/runs/{RUN}/answer",
    f"/api/runs/{RUN}/improvements",
    f"/api/runs/{RUN}/dots",
)
FILTERS = (
    "kind=migrated",
    "kind=reset",
    "kind=observed",
    "kind=applied,migrated",
    "q=needle",
    "q=nothing+like+it",
    "kind=observed&q=needle",
)
VIEWS = (
    f"/api/runs/{RUN}/improvements",
    f"/api/runs/{RUN}/candidates?sort=best",
    f"/api/runs/{RUN}/candidates?sort=newest&island=2",
    f"/api/runs/{RUN}/candidates/best",
    f"/api/runs/{RUN}/lineage?limit=2000",
    f"/api/runs/{RUN}/islands",
    f"/api/runs/{RUN}/models",
    f"/events?run={RUN}",
    "/metrics",
)


class Timing(NamedTuple):
    """Cost of one response: wall milliseconds, CPU milliseconds of the server, and kilobytes."""

    wall_ms: float
    cpu_ms: float
    kilobytes: float
    answer: dict[str, object]


class Server:
    """Dashboard in a separate process."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", "atoll", "dashboard", "--store", str(path), "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        self.address = next(word for word in line.split() if word.startswith("http://"))
        self.url = f"http://{urlsplit(self.address).netloc}"
        self.client = httpx2.Client(base_url=self.url, timeout=120)
        self.client.get("/ui")  # wait until it serves

    def cpu_seconds(self) -> float:
        """Returns the CPU time of the process."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_mb(self) -> float:
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / 2**20

    def ask(self, path: str) -> Timing:
        began, cpu = time.perf_counter(), self.cpu_seconds()
        result = self.client.get(path)
        wall = time.perf_counter() - began
        assert result.status_code == 200, (path, result.text[:300])
        is_json = result.headers["content-type"] == "application/json"
        answer = result.json() if is_json else {}
        return Timing(wall * 1e3, (self.cpu_seconds() - cpu) * 1e3, len(result.content) / 1e3, answer)

    def wait_until_counted(self) -> float:
        """Waits until the server has read everything ahead. Returns the seconds."""
        began = time.monotonic()
        while not self.client.get(f"/api/runs/{RUN}").json()["is_counted"]:
            time.sleep(0.5)
        while not self.client.get(f"/events?run={RUN}&kind=reset").json()["is_done"]:
            time.sleep(0.5)
        return time.monotonic() - began

    def close(self) -> None:
        self.client.close()
        self.process.terminate()
        self.process.wait(30)
        if self.process.stdout:
            self.process.stdout.close()


@contextlib.contextmanager
def serving(path: Path) -> Iterator[Server]:
    """Runs a dashboard."""
    server = Server(path)
    try:
        yield server
    finally:
        server.close()


def fill(path: Path, num_steps: int) -> float:
    """Writes a run with this many iterations of ten events each. Returns the CPU seconds."""
    began = time.process_time()
    with store.Store(path) as opened_store:
        opened_store.create_run(RUN, {"system": "programs", "folder": RUN, "run": {"iterations": num_steps}})
        records, rng = opened_store.journal(RUN), random.Random(0)
        waiting = list(_beginning(num_steps))
        for step in range(1, num_steps + 1):
            waiting += _step(step, num_steps, rng)
            if len(waiting) > PORTION:
                records.write(*waiting)
                waiting = []
        reason = {"reason": f"budget of {num_steps} iterations used"}
        records.write(*waiting, journal.Record("ended", num_steps, -1, reason))
    return time.process_time() - began


def _beginning(num_steps: int) -> Iterator[journal.Record]:
    started = {"sandbox": "L3", "llm": "three models", "plan": {}, "budget": {"iterations": num_steps}}
    yield journal.Record("started", 0, -1, started)
    first = {"id": "0.0", "content": BODY, "parents": [], "island": 0, "step": 0, "evaluation": {"score": 0.0}}
    accepted = [["accept", "founded", "atoll", None]] * 4
    yield journal.Record("founded", 0, -1, {**first, "decisions": accepted, "setup": {"num_islands": 4}})


def _step(step: int, num_steps: int, rng: random.Random) -> Iterator[journal.Record]:
    """Yields the records of one iteration: selection, three responses, an evaluation, four updates, a decision."""
    island, parent = step % 4, f"{rng.randrange(max(0, step - 200), step)}.0"
    score, id = min(1.0, 2 * step / num_steps) * rng.random(), f"{step}.0"
    yield journal.Record("begun", step, island, {"epoch": 0, "seen": step - 1, "parents": [parent]})
    for call in range(3):
        usage = [rng.random(), 400, 120, 0.0004, 0]
        reply = {"model": f"model-{call}", "prompt": f"Improve {BODY[:200]}", "text": BODY[:150], "usage": usage}
        yield journal.Record("replied", step, island, {**reply, "call": str(call), "request": "0" * 16})
    evaluation = {
        "score": score,
        "scores": [score, score / 2],
        "metrics": {"a": score, "b": 1 - score},
        "feedback": "fine",
    }
    candidate = {"id": id, "content": f"{BODY}# {step}\n", "parents": [parent], "island": island, "step": step}
    evaluated = {**candidate, "meta": {"engine": "llm"}, "label": "0", "evaluation": evaluation, "paid": True}
    yield journal.Record("judged", step, island, evaluated)
    for turn in range(4):
        message = f"needle {step}" if step % 1000 == 0 and turn == 0 else "one turn passed"
        late = {"score": score, "metrics": {"turn": float(turn)}, "feedback": message}
        yield journal.Record("observed", step, island, {"id": id, "evaluation": late})
    children = [{"id": id, "decision": ["accept", "it ran", "ran", None]}]
    cost = [0.05, 1200, 360, 0.0012, 3]
    yield journal.Record("applied", step, island, {"children": children, "evaluations": 1, "cost": cost})
    if step % 500 == 0:
        yield journal.Record("migrated", step, (island + 1) % 4, {"fn": {**candidate, "evaluation": {"score": score}}})


def reads(
    path: Path,
) -> tuple[list[Sequence[object]], list[Sequence[object]], list[Sequence[object]], dict[str, float]]:
    """Requests all views, cold and warm."""
    with serving(path) as server:
        cold = {item: server.ask(item) for item in FIRST_VIEW}
        counted = server.wait_until_counted()
        warm = {item: _best(server, item) for item in FIRST_VIEW}
        views = {view: (server.ask(view), _best(server, view)) for view in VIEWS}
        warm_filters = {item: _best(server, _events(item)) for item in FILTERS}
        facts = {"read_ahead_seconds": counted, "server_mb": server.resident_mb()}
    with serving(path) as server:
        server.ask("/api/session")
        cold_filters = {item: server.ask(_events(item)) for item in FILTERS}
    first = [_row(item, cold[item], warm[item]) for item in FIRST_VIEW]
    sums = [
        sum(getattr(item, name) for item in result.values()) for result in (cold, warm) for name in Timing._fields[:2]
    ]
    first.append(("all", *(round(item, 1) for item in sums), ""))
    filters = [_filter_row(item, cold_filters[item], warm_filters[item]) for item in FILTERS]
    return first, filters, [_row(item, *result) for item, result in views.items()], facts


def _events(query: str) -> str:
    return f"/events?run={RUN}&limit=100&{query}"


def _best(server: Server, path: str) -> Timing:
    return min((server.ask(path) for _ in range(REPEATS)), key=lambda timing: timing.wall_ms)


def _row(name: str, cold: Timing, warm: Timing) -> Sequence[object]:
    numbers = (cold.wall_ms, cold.cpu_ms, warm.wall_ms, warm.cpu_ms, warm.kilobytes)
    return (f"`{name}`", *(round(number, 1) for number in numbers))


def _filter_row(name: str, cold: Timing, warm: Timing) -> Sequence[object]:
    result = warm.answer["events"]
    assert isinstance(result, list)
    total, looked = int(str(warm.answer["total"])), int(str(warm.answer["looked"]))
    numbers = (cold.wall_ms, cold.cpu_ms, warm.wall_ms, warm.cpu_ms)
    return (f"`{name}`", *(round(number, 1) for number in numbers), len(result), f"{total - looked + 1:,}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=100_000, help="iterations of the run, with ten events each")
    parser.add_argument("--store", type=Path, help="path of the store")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--events", type=int, default=10_000, help="events sent to the clients")
    parser.add_argument("--rounds", type=int, default=6, help="rounds of the run, each once alone and once watched")
    parser.add_argument("--real-time", action="store_true", help="use real-time priority; needs root")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = chosen.store or Path(folder) / "big.db"
        filled = 0.0 if path.exists() else fill(path, chosen.steps)
        if chosen.real_time:
            os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        first, filters, views, facts = reads(path)
        live = Path(folder) / "live.db"
        sent = dashboard_watch.stream(serving, live, chosen.clients, chosen.events)
        stores = [Path(folder) / f"{name}.db" for name in ("one", "other")]
        paced = dashboard_watch.pace(serving, stores, chosen.clients, chosen.rounds)
    timed = ("cold, ms", "cold CPU, ms", "warm, ms", "warm CPU, ms")
    tables: outcome.Tables = {
        "First view by request": (("request", *timed, "kB"), first),
        "Event filters": (("filter", *timed, "matches", "events read"), filters),
        "Other views": (("request", *timed, "kB"), views),
        "The live stream": (tuple(sent), [tuple(sent.values())]),
        "Two runs at 20 iterations/s, unwatched or one of them watched": (tuple(paced), [tuple(paced.values())]),
    }
    notes = (
        f"Goals: the first view under {GOALS['first view']:g} ms, a filter under {GOALS['filter']:g} ms, all other "
        "clients complete, an unchanged pace, and under 3 % more CPU per iteration.",
        "Two runs in two stores run at once, each with its server. The clients watch no run, the first or the second "
        "in turns. `beside` is the run while the other one is watched, with the same load on the machine. So "
        "`watched` against `beside` is the cost of watching for the run itself.",
        f"The store: {chosen.steps:,} candidates, {10 * chosen.steps:,} events. The server read it in "
        f"{facts['read_ahead_seconds']:.1f} s while it served requests, and then used {facts['server_mb']:.0f} MB.",
    )
    outcome.keep("dashboard", tables, notes, "", filled_cpu_seconds=filled, **facts)


if __name__ == "__main__":
    main()

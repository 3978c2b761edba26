"""Clients of the dashboard's live stream, one of which never reads, and a run that they watch."""

import asyncio
import contextlib
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from atoll import cluster, control, function, journal, store
from bench import engine

RUN, PACED = "live", "paced"
PACE_SECONDS = 0.05  # 20 iterations per second
BLOCK_STEPS = 200  # in one phase, alone or watched
LIMIT_SECONDS = 300.0

type Serving = Callable[[Path], AbstractContextManager[Any]]


class Clients:
    """Readers of the stream in a separate thread, and one client that opens it and never reads."""

    def __init__(self, url: str, number: int, after: int, run: str = RUN) -> None:
        self._host, self._number, self._after, self._run = urlsplit(url).netloc, number, after, run
        self.counts = [0] * number
        self.lasts = [after] * number
        self.gaps = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._tasks: list[Any] = []

    def __enter__(self) -> "Clients":
        self._thread.start()
        self._tasks = [asyncio.run_coroutine_threadsafe(self._read(index), self._loop) for index in range(self._number)]
        self._tasks.append(asyncio.run_coroutine_threadsafe(self._stall(), self._loop))
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        time.sleep(0.2)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    async def _open(self, limit: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        name, _, port = self._host.partition(":")
        reader, writer = await asyncio.open_connection(name, int(port), limit=limit)
        requests = f"GET /sse/timeline?run={self._run}&after={self._after} HTTP/1.1\r\nHost: {self._host}\r\n\r\n"
        writer.write(requests.encode())
        return reader, writer

    async def _read(self, position: int) -> None:
        reader, writer = await self._open(1 << 20)
        try:
            while line := await reader.readline():
                if line.startswith(b"id: "):
                    seq = int(line[4:])
                    self.gaps += seq != self.lasts[position] + 1
                    self.lasts[position] = seq
                    self.counts[position] += 1
        finally:
            writer.close()

    async def _stall(self) -> None:
        _, writer = await self._open(1024)
        try:
            await asyncio.sleep(LIMIT_SECONDS)
        finally:
            writer.transport.abort()


def stream(serving: Serving, path: Path, num_clients: int, num_events: int) -> dict[str, object]:
    """Sends events to many clients, one of which never reads. Returns the results."""
    with store.Store(path) as opened_store:
        opened_store.create_run(RUN, {"system": "programs", "folder": RUN})
        records = opened_store.journal(RUN)
        records.write(journal.Record("started", 0, -1, {"llm": "none", "sandbox": "L3"}))
        with serving(path) as server, Clients(server.url, num_clients, 1) as clients:
            began, cpu = time.monotonic(), server.cpu_seconds()
            for start in range(0, num_events, 20):
                rows = range(start + 1, min(start + 20, num_events) + 1)
                records.write(*(_event(number) for number in rows))
                time.sleep(0.004)
            written = time.monotonic() - began
            while min(clients.lasts) < 1 + num_events and time.monotonic() - began < LIMIT_SECONDS:
                time.sleep(0.02)
            done = time.monotonic() - began
            used = server.cpu_seconds() - cpu
            return {
                "clients": num_clients,
                "and stalled": 1,
                "events": num_events,
                "complete": sum(count == num_events for count in clients.counts),
                "gaps": clients.gaps,
                "written in, s": round(written, 1),
                "all received after, s": round(done, 1),
                "server CPU, s": round(used, 2),
                "us per event and client": round(used / num_events / num_clients * 1e6, 1),
            }


def _event(number: int) -> journal.Record:
    result = {"score": 0.5, "feedback": "one turn passed, and this is its fairly long description " * 3}
    return journal.Record("observed", number, 0, {"id": f"{number}.0", "evaluation": result})


def pace(serving: Serving, paths: Sequence[Path], num_clients: int, rounds: int) -> dict[str, object]:
    """Runs two runs at 20 iterations per second. Watches neither, the first or the second in turns."""
    cpu: dict[str, list[float]] = {"alone": [], "watched": [], "beside": []}
    rates: dict[str, list[float]] = {"alone": [], "watched": [], "beside": []}
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(serving(_create_store(path))) for path in paths]
        running = [stack.enter_context(_paced(path)) for path in paths]
        _blocks(running)  # warms up
        for _ in range(rounds):
            for watched in (None, 0, 1):
                look = contextlib.nullcontext() if watched is None else _watching(servers[watched].url, num_clients)
                with look:
                    result = _blocks(running)
                for position, (cpu_us, rate) in enumerate(result):
                    name = "alone" if watched is None else "watched" if position == watched else "beside"
                    cpu[name].append(cpu_us)
                    rates[name].append(rate)
    medians = {name: statistics.median(item) for name, item in cpu.items()}
    pairs = [after / before - 1 for before, after in zip(cpu["beside"], reversed_pairs(cpu["watched"]), strict=True)]
    return {
        "blocks of each": f"{2 * rounds} of {BLOCK_STEPS} steps",
        **{f"steps/s {name}": round(statistics.median(item), 2) for name, item in rates.items()},
        **{f"CPU us per iteration {name}": round(item) for name, item in medians.items()},
        "watched against beside, %": round(100 * (medians["watched"] / medians["beside"] - 1), 2),
        "by pairs, %": round(100 * statistics.median(pairs), 2),
        "watched against alone, %": round(100 * (medians["watched"] / medians["alone"] - 1), 2),
        "spread of a block alone, %": round(100 * _spread(cpu["alone"]), 2),
    }


def reversed_pairs(values: Sequence[float]) -> list[float]:
    """Returns the blocks reordered so that each is next to the other block of the same run."""
    return [values[index + (1 if index % 2 == 0 else -1)] for index in range(len(values))]


def _create_store(path: Path) -> Path:
    with store.Store(path) as opened_store:
        opened_store.create_run(PACED, {"system": "programs", "folder": PACED})
    return path


def _blocks(running: Sequence["_Paced"]) -> list[tuple[float, float]]:
    """Runs one block of all runs at once."""
    for item in running:
        item.begin()
    return [item.end() for item in running]


def _spread(values: Sequence[float]) -> float:
    return statistics.pstdev(values) / statistics.fmean(values)


class _Paced:
    """Run in a separate process that runs one block per request."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def begin(self) -> None:
        """Starts one block."""
        assert self._process.stdin is not None
        self._process.stdin.write("go\n")
        self._process.stdin.flush()

    def end(self) -> tuple[float, float]:
        """Waits for the end of the block. Returns CPU microseconds per iteration, and iterations per second."""
        assert self._process.stdout is not None
        cpu_us, rate = self._process.stdout.readline().split()
        return float(cpu_us), float(rate)


@contextlib.contextmanager
def _paced(path: Path) -> Iterator[_Paced]:
    command = [sys.executable, "-m", "bench.dashboard_watch", str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield _Paced(process)
        finally:
            process.communicate("")


@contextlib.contextmanager
def _watching(url: str, num_clients: int) -> Iterator[None]:
    import httpx2

    ended = threading.Event()

    def look() -> None:
        with httpx2.Client(base_url=url, timeout=60) as client:
            while not ended.wait(1.0):
                for path in ("", "/curve", "/improvements"):
                    client.get(f"/api/runs/{PACED}{path}")

    page = threading.Thread(target=look, daemon=True)
    page.start()
    with Clients(url, num_clients, 0, PACED):
        yield
    ended.set()
    page.join(60)


class Paced:
    """Engine that waits for the next iteration time."""

    def __init__(self) -> None:
        self._next, self._engine = 0.0, engine.Instant()

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        now = time.monotonic()
        self._next = now if now - self._next > 1.0 else self._next + PACE_SECONDS  # next block or iteration
        time.sleep(max(0.0, self._next - now))
        return self._engine.propose(context)


def run_paced(path: str) -> None:
    """Runs blocks on request of standard input. Prints CPU per iteration and iterations per second."""
    with store.Store(path) as opened_store:
        start = function.DefaultFunction(
            function.DefaultFunctionProps(function.Text("0 0.0 0.0"), candidate_evaluator=engine.evaluate)
        )
        islands = cluster.IslandConfig(2, 2, start, Paced(), make_population=engine.grid_population)
        steps = 0
        for line in sys.stdin:
            if not line.strip():
                break
            steps += BLOCK_STEPS
            config = cluster.EvolverConfig(
                islands,
                journal=opened_store.journal(PACED),
                inbox=opened_store.inbox(PACED),
                num_parallel=1,
                reset_period=None,
                budget=control.Budget(iterations=steps),
            )
            evolver = cluster.Evolver(config)
            began, cpu = time.monotonic(), time.process_time()
            evolver.run()
            used, took = time.process_time() - cpu, time.monotonic() - began
            print(used / BLOCK_STEPS * 1e6, BLOCK_STEPS / took, flush=True)


if __name__ == "__main__":
    run_paced(sys.argv[1])

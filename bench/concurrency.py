"""Concurrent LLM calls: share of the ideal throughput with 64 calls, and memory per call. Linux only.

A model server on loopback, a separate process, delays every response by half a second. Threads of this process call
Atoll's LLM layer with everything that a run adds except the journal. Memory is the resident set of this process above
its size after one call. OpenEvolve runs its command line on the task of `bench/engine.py` with 4, 8 and 16 workers. It
has one process per concurrent call; its slope is the memory of one more worker.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import NamedTuple

from atoll import llm
from atoll.testing import server
from bench import end_to_end, metering, model_server, outcome

PEERS = True
LATENCY_SECONDS = 0.5
NUM_CALLS = 64  # concurrent calls
ROUNDS = 20
REPEATS = 5  # the best counts, because other load only slows it down
WORKERS = (4, 8, 16)
PEER_ITERATIONS = 6  # per worker
LIMIT_SECONDS = 300.0
WANTED_SHARE, WANTED_MB = 0.95, 100.0


class Run(NamedTuple):
    """Result for one number of concurrent calls.

    Attributes:
        share: Share of the ideal throughput, which is one response per concurrent call and latency.
        extra_mb: Memory above the idle process.
        cpu_ms: CPU time per call of the calling process.
    """

    in_flight: int
    calls: int
    seconds: float
    share: float
    extra_mb: float
    cpu_ms: float


def resident_mb(pid: int | str = "self") -> float:
    """Returns the resident set of a process and its descendants; 0 if it has ended."""
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except (OSError, IndexError):
        return 0.0
    below = 0.0 if pid == "self" else sum(map(resident_mb, metering.children(int(pid))))
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20 + below


@contextmanager
def serving() -> Iterator[str]:
    """Runs the model server and yields its address."""
    command = [sys.executable, "-m", "bench.concurrency", "--serve"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.communicate("")


def serve() -> None:
    """Responds until standard input ends. OpenEvolve gets a program, Atoll a word."""

    def answer(prompt: str, number: int) -> str:
        return model_server.reply(prompt, Random(number)) if "# Current" in prompt else "yes"

    with server.ModelServer(answer, faults=server.Fault(delay_seconds=LATENCY_SECONDS)) as model:
        print(model.url, flush=True)
        sys.stdin.read()


def measure_atoll(url: str, in_flight: int) -> Run:
    """Calls the LLM from this many threads, `ROUNDS` times each."""
    model = llm.make_llm(f"openai:bench@{url}", timeout_seconds=30.0)
    assert model is not None
    durable = llm.JournaledLLM(model)
    durable("the first call imports and connects")
    idle, peak, is_over = resident_mb(), [0.0], Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            peak.append(resident_mb())

    def ask(number: int) -> None:
        for turn in range(ROUNDS):
            durable(f"thread {number}, turn {turn}")

    threads = [Thread(target=ask, args=(number,)) for number in range(in_flight)]
    watcher = Thread(target=watch)
    watcher.start()
    since, used = time.perf_counter(), time.process_time()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds, cpu_ms = time.perf_counter() - since, (time.process_time() - used) * 1e3 / (in_flight * ROUNDS)
    is_over.set()
    watcher.join()
    return Run(in_flight, in_flight * ROUNDS, seconds, ROUNDS * LATENCY_SECONDS / seconds, max(peak) - idle, cpu_ms)


def measure_openevolve(url: str, workers: int) -> tuple[Run, float]:
    """Runs OpenEvolve with this many workers. Returns its result and its total memory."""
    iterations = workers * PEER_ITERATIONS
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as folder:
        config = (end_to_end.ROOT / end_to_end.TASK_DIR / "config.yaml").read_text()
        changed, count = re.subn(r"(parallel_evaluations:) *\d+", rf"\1 {workers}", config)
        assert count == 1, "the configuration of the task names no number of workers"
        path = Path(folder, "config.yaml")
        path.write_text(changed)
        command = list(end_to_end.openevolve_command(url, iterations, folder))
        command[command.index("--config") + 1] = str(path)
        environment = end_to_end.environment(folder)
        with tempfile.TemporaryFile("w+") as output:
            process = subprocess.Popen(
                command, cwd=end_to_end.ROOT, env=environment, stdout=output, stderr=subprocess.STDOUT
            )
            since, used = time.perf_counter(), [0.0]
            while process.poll() is None:
                used.append(resident_mb(process.pid))
                if time.perf_counter() - since > LIMIT_SECONDS:
                    metering.kill(process.pid)
                time.sleep(0.05)
            seconds = time.perf_counter() - since
            output.seek(0)
            if process.returncode:
                raise RuntimeError(f"OpenEvolve ended with {process.returncode}:\n{output.read()[-2000:]}")
    ideal = PEER_ITERATIONS * LATENCY_SECONDS
    return Run(workers, iterations, seconds, ideal / seconds, 0.0, 0.0), max(used)


def verdict(run: Run) -> str:
    met = "met" if run.share >= WANTED_SHARE and run.extra_mb <= WANTED_MB else "missed"
    return (
        f"{run.in_flight} calls in flight: {run.share:.1%} of the ideal throughput (goal: {WANTED_SHARE:.0%}) "
        f"and {run.extra_mb:.1f} MB above the idle process (limit: at most {WANTED_MB:.0f}): {met}."
    )


def slope(workers: Sequence[int], megabytes: Sequence[float]) -> float:
    """Returns the increase per worker by least squares."""
    return statistics.linear_regression(workers, megabytes).slope


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench concurrency", description=__doc__)
    parser.add_argument("--no-peers", action="store_true", help="Atoll alone")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        return serve()
    columns = ["in flight", "calls", "seconds", "share of the ideal", "MB above idle", "CPU ms per call"]
    with serving() as url:
        results = [[measure_atoll(url, number) for number in (16, NUM_CALLS)] for _ in range(REPEATS)]
        ours = [max(same, key=lambda run: run.share) for same in zip(*results, strict=True)]
        # Only the first measurement of a process sees its memory grow.
        ours = [
            run._replace(extra_mb=max(item.extra_mb for item in same))
            for run, same in zip(ours, zip(*results, strict=True), strict=True)
        ]
        shares = ", ".join(f"{run.share:.1%}" for _, run in results)
        tables: dict[str, tuple[Sequence[str], Sequence[Sequence[object]]]] = {"Atoll, one process": (columns, ours)}
        notes = [
            f"Latency {LATENCY_SECONDS} s, {ROUNDS} calls per thread; the best of {REPEATS} turns (with {NUM_CALLS}: "
            f"{shares}) and the most memory of them.",
            verdict(ours[-1]),
        ]
        if not options.no_peers:
            theirs = [measure_openevolve(url, workers) for workers in WORKERS]
            title = f"OpenEvolve {end_to_end.peer_version('openevolve')}, a process per worker"
            displayed = [[run.in_flight, run.calls, run.seconds, run.share, used] for run, used in theirs]
            tables[title] = (["workers", "calls", "seconds", "share of the ideal", "MB, all processes"], displayed)
            added = slope(WORKERS, [used for _, used in theirs])
            notes.append(
                f"Its memory grows by {added:.1f} MB per worker, that is per call in flight; ours by "
                f"{ours[-1].extra_mb / NUM_CALLS:.2f} MB. Its seconds include its start and its end, which are "
                f"{'a large' if theirs[0][0].seconds > 6 else 'a small'} part of so short a run."
            )
    outcome.keep("concurrency", tables, notes)
    return None


if __name__ == "__main__":
    main()

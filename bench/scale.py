"""Cost of distribution: an evaluation on Ray, in the local pool and in bare Ray, scaling, and shared journals.

Each variant evaluates the same candidate, which does nothing. The variants take turns, one batch of each per round, so
that other load affects all of them; the table shows medians. CPU time includes this process and all its descendants,
also Ray's own processes. Scaling: evaluations that sleep for 20 ms, on 1, 2 and 4 slots. The cluster runs on this
machine and is started and stopped here.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from atoll import executor, journal, sandbox, store
from bench import outcome, scale_stores

TICK = os.sysconf("SC_CLK_TCK")
NAP_MS = 20.0
CANDIDATE = "answer = 1"
STORES = outcome.RESULTS_DIR / "scale_stores.md"


def programs() -> Callable[[str], Any]:
    """Makes the job: run a program, return its answer."""

    def run(program: str) -> Any:
        names: dict[str, Any] = {}
        exec(program, names)
        return names.get("answer")

    return run


def tree_seconds() -> float:
    """Returns the CPU time of this process and its descendants, ended ones included."""
    parents, used = dict[int, int](), dict[int, float]()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = Path("/proc", name, "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents[int(name)] = int(fields[1])
        used[int(name)] = sum(map(int, fields[11:15])) / TICK

    def is_ours(pid: int) -> bool:
        while pid in parents and pid != os.getpid():
            pid = parents[pid]
        return pid == os.getpid()

    return sum(seconds for pid, seconds in used.items() if is_ours(pid))


def timed(batch: Callable[[], None], size: int) -> tuple[float, float]:
    """Returns wall time and CPU time per evaluation of a batch in milliseconds."""
    cpu, wall = tree_seconds(), time.perf_counter()
    batch()
    wall = time.perf_counter() - wall
    return 1000 * wall / size, 1000 * (tree_seconds() - cpu) / size


def make_executor(num_slots: int, *, on_ray: bool) -> executor.ExecutorConfig:
    ray_config = executor.RayConfig(cpus=0.0) if on_ray else None  # more actors than cores
    return executor.ExecutorConfig(sandbox.Limits(), num_slots, is_unsafe=True, ray_config=ray_config)


def length(program: str) -> int:
    return len(program)


def one_by_one(box: executor.LocalExecutor, size: int) -> None:
    for _ in range(size):
        answer = box.run(CANDIDATE)
        assert answer.value == 1, answer


def at_once(box: executor.LocalExecutor, size: int) -> None:
    nap = f"import time; time.sleep({NAP_MS / 1000}); answer = 1"
    with ThreadPoolExecutor(2 * box.num_slots) as threads:
        assert all(answer.value == 1 for answer in threads.map(box.run, [nap] * size))


def start_all(box: executor.LocalExecutor, num_slots: int) -> None:
    """Waits until all slots have started; then parallel sleeps of a second take little more than a second."""
    for _ in range(30):
        since = time.perf_counter()
        with ThreadPoolExecutor(num_slots) as threads:
            list(threads.map(box.run, ["import time; time.sleep(1.0)"] * num_slots))
        if time.perf_counter() - since < 1.9:
            return


@contextmanager
def ways(size: int) -> Iterator[Mapping[str, Callable[[], None]]]:
    """Yields the variants that evaluate a batch sequentially."""
    with make_executor(1, on_ray=False).open(programs) as local, make_executor(1, on_ray=True).open(programs) as remote:
        import ray

        task = ray.remote(num_cpus=0)(length)

        class Bare:
            def run(self, program: str) -> int:
                return len(program)

        actor = ray.remote(num_cpus=0)(Bare).remote()

        def tasks() -> None:
            for _ in range(size):
                ray.get(task.remote(CANDIDATE))

        def calls() -> None:
            for _ in range(size):
                ray.get(actor.run.remote(CANDIDATE))

        yield {
            "local pool, in a sandbox": lambda: one_by_one(local, size),
            "Ray actor, in a sandbox": lambda: one_by_one(remote, size),
            "bare Ray task, no sandbox": tasks,
            "bare Ray actor, no sandbox": calls,
        }


def overheads(rounds: int, size: int) -> list[list[object]]:
    result: dict[str, list[tuple[float, float]]] = {}
    with ways(size) as batches:
        for number in range(rounds + 1):
            for name, batch in batches.items():
                figures = timed(batch, size)
                if number:  # the first round is a warm-up
                    result.setdefault(name, []).append(figures)
    return [
        [name, statistics.median(wall for wall, _ in all_), statistics.median(cpu for _, cpu in all_)]
        for name, all_ in result.items()
    ]


def growth(rounds: int, size: int) -> list[list[object]]:
    rows: list[list[object]] = []
    for on_ray in (False, True):
        alone = 0.0
        for num_slots in (1, 2, 4):
            with make_executor(num_slots, on_ray=on_ray).open(programs) as box:
                start_all(box, num_slots)
                walls = [timed(lambda box=box: at_once(box, size), size)[0] for _ in range(rounds)]  # type: ignore[misc]
            rate = 1000 / statistics.median(walls)
            alone = alone or rate
            ideal = num_slots * 1000 / NAP_MS
            rows.append(["Ray" if on_ray else "local pool", num_slots, rate, rate / alone, f"{rate / ideal:.0%}"])
    return rows


def make_evaluated_record(step: int) -> journal.Record:
    data = {"id": f"{step}.0", "content": "x" * 500, "parents": ["0.0"], "island": 0, "step": step, "label": "0"}
    data |= {"evaluation": {"score": 1.0}, "paid": True}
    return journal.Record("judged", step, 0, data)


def commits(rounds: int, size: int, urls: Mapping[str, str]) -> list[list[object]]:
    """Measures a commit of one record, alone and as one of several coordinators."""
    rows: list[list[object]] = []
    for name, url in urls.items():
        with store.Store(url) as opened_store:
            one, many = opened_store.create_run(), opened_store.create_run()
            held = opened_store.leases(many, "bench", 3600.0)
            held.create_rows(4)
            held.acquire([0])
            for kind, written in (
                ("one coordinator", opened_store.journal(one)),
                ("shared", store.SharedJournal(held)),
            ):
                steps, spent = iter(range(1, 10**9)), []
                for _ in range(rounds):
                    since, cpu = time.perf_counter(), time.process_time()
                    for _ in range(size):
                        written.write(make_evaluated_record(next(steps)))
                    spent.append((time.perf_counter() - since, time.process_time() - cpu))
                wall, used = (1e3 * statistics.median(item) / size for item in zip(*spent, strict=True))
                rows.append([name, kind, wall, used])
            since = time.perf_counter()
            for _ in range(size):
                held.renew()
            rows.append([name, "renewal of all leases", 1e3 * (time.perf_counter() - since) / size, ""])
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--size", type=int, default=100, help="evaluations in a batch")
    options = parser.parse_args()
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")  # on the loopback, for a minute
    with tempfile.TemporaryDirectory() as folder, scale_stores.serving(Path(folder)) as (address, _):
        urls = {"SQLite": os.path.join(folder, "atoll.db"), "PostgreSQL": address}
        stores = commits(options.rounds, options.size, urls)
    tables = {
        "One evaluation that does nothing": (["way", "wall ms", "CPU ms"], overheads(options.rounds, options.size)),
        f"Growth: evaluations of {NAP_MS:g} ms": (
            ["pool", "slots", "evaluations/s", "times one slot", "of the ideal"],
            growth(options.rounds, options.size),
        ),
        "One commit of one record": (["store", "journal", "wall ms", "CPU ms"], stores),
    }
    notes = [f"Stores at a million candidates: `scripts/bench scale_stores`, {STORES.name}."] if STORES.exists() else []
    outcome.keep("scale", tables, notes)


if __name__ == "__main__":
    main()

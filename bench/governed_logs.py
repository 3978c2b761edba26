"""Logs and replay: lines per second, memory, and integrity with many concurrent writers.

    scripts/bench governed_logs              # 1,000,000 decisions, 600,000 measurements; some minutes
    scripts/bench governed_logs --large      # 10,000,000 decisions, replay only: whether memory stays bounded
    scripts/bench governed_logs --quick      # a few seconds; saves nothing

Times are CPU seconds, because the machine is shared. Each part runs in a separate process with its own peak memory. The
reference rows read the same file: `json` and `msgspec` decode each line and match nothing.
"""

import argparse
import datetime as dt
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from atoll.governed.evidence import columnar, feedback, feedback_stores, log_stores, logs, reflectors, replay_report
from atoll.governed.evidence import replayer as evidence_replayer
from bench import outcome

EXTRA = "columnar"
START = dt.datetime(2026, 4, 18, tzinfo=dt.UTC)
END = START + dt.timedelta(days=60)
NUM_ENTITIES = 1000
METRICS = ("cost", "on_time")
STEP = dt.timedelta(milliseconds=80)
NUM_TRIES = 2  # the best counts, because other load only slows it down
NUM_LINES, LARGE = 1_000_000, 10_000_000
SHARE = 0.6  # measurements per decision


def entry(number: int, rng: random.Random) -> logs.LogEntry:
    payload = {
        "route": f"r{rng.randrange(500)}",
        "price": round(rng.random() * 100, 2),
        "eta_h": rng.randrange(1, 72),
        "flags": ["a", "b"],
    }
    meta = {"policy": f"v{number % 5}", "propensity": round(rng.random() * 0.8 + 0.1, 4)}
    entity = f"carrier-{rng.randrange(NUM_ENTITIES)}"
    return logs.LogEntry(START + number * STEP, f"d{number:09d}", entity, payload, meta)


def generate(folder: Path, num_lines: int) -> None:
    """Writes the log and its feedback in the format of the writers, with simulated times."""
    rng = random.Random(0)
    log = log_stores.FileLog(folder / "log")
    for number in range(num_lines):
        log.append(entry(number, rng))
    log.close()
    generate_feedback(folder, num_lines)


def generate_feedback(folder: Path, num_lines: int) -> None:
    rng = random.Random(1)
    files: dict[str, list[bytes]] = {}
    encoder = msgspec.json.Encoder()
    for number in range(int(num_lines * SHARE)):
        moment = START + rng.random() * num_lines * STEP + dt.timedelta(seconds=10)
        entity, metric = f"carrier-{(number * 7919) % NUM_ENTITIES}", METRICS[number // NUM_ENTITIES % 2]
        line = encoder.encode(feedback.Feedback(moment, entity, metric, rng.random())) + b"\n"
        files.setdefault(f"{entity}/{moment:%Y-%m-%d}.jsonl", []).append(line)
        if number % 500_000 == 0:
            _flush(folder, files)
    _flush(folder, files)


def _flush(folder: Path, files: dict[str, list[bytes]]) -> None:
    for name, lines in files.items():
        path = folder / "feedback" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("ab") as file:
            file.writelines(lines)
    files.clear()


def replayed(folder: Path, reflector: replay_report.Reflector | None) -> Mapping[str, Any]:
    replayer = evidence_replayer.LogReplayer(
        log_stores.FileLog(folder / "log"), feedback_stores.FileFeedback(folder / "feedback")
    )
    if reflector is not None:
        replayer.register(reflector)
    report = replayer.replay(START, END)
    return {"decisions": report.entries, "events": report.events, "paired": report.paired}


def with_function(folder: Path) -> Mapping[str, Any]:
    observed = [0, 0.0]

    def look(event: replay_report.ReplayEvent) -> None:
        if event.feedback is not None:
            observed[0] += 1
            observed[1] += event.feedback.value

    return {**replayed(folder, reflectors.FuncReflector(look)), "seen": observed[0]}


def with_aggregator(folder: Path) -> Mapping[str, Any]:
    aggregator = reflectors.AggregatorReflector()
    result = replayed(folder, aggregator)
    return {**result, "entities": len(aggregator.list_entities())}


def with_columns(folder: Path) -> Mapping[str, Any]:
    columns = columnar.ColumnarReplay(folder / "log", folder / "feedback", START, END)
    paired = sum(row["count"] for row in columns.compute_statistics())
    return {"decisions": columns.decisions.height, "events": paired, "paired": paired}


def read_only(folder: Path) -> Mapping[str, Any]:
    return {"decisions": sum(1 for _ in log_stores.FileLog(folder / "log").read(START, END))}


def json_only(folder: Path) -> Mapping[str, Any]:
    count = 0
    for path in sorted((folder / "log").glob("*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                count += json.loads(line)["timestamp"] >= "2026"
    return {"decisions": count}


def msgspec_only(folder: Path) -> Mapping[str, Any]:
    count, decode = 0, msgspec.json.Decoder(logs.LogEntry).decode
    for path in sorted((folder / "log").glob("*.jsonl")):
        with path.open("rb") as file:
            for line in file:
                count += decode(line).timestamp >= START
    return {"decisions": count}


ANCHOR = "anchor"
COLUMNS = "columnar (polars), paired, statistics"
PARTS: Mapping[str, Callable[[Path], Mapping[str, Any]]] = {
    "replay, paired, 1 reflector": with_function,
    "replay, paired, aggregator": with_aggregator,
    COLUMNS: with_columns,
    "log alone": read_only,
    "reference: msgspec, line by line": msgspec_only,
    "anchor: json": json_only,
}


def run_part(name: str, folder: Path) -> Mapping[str, Any]:
    """Runs a part in this process. Returns its cost without imports."""
    if name == COLUMNS:
        import polars  # noqa: F401 - the product imports it when it is needed
    began = time.process_time()
    result = PARTS[name](folder)
    seconds = time.process_time() - began
    return {**result, "cpu_seconds": seconds, "peak_mb": peak_mb()}


def peak_mb() -> float:
    """Returns the peak memory of this process. `getrusage` would include that of its parent."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return float("nan")


def parted(name: str, folder: Path) -> Mapping[str, Any]:
    """Runs a part in a separate process, to measure its memory."""
    command = [sys.executable, "-m", "bench.governed_logs", "--part", name, "--folder", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
    result: Mapping[str, Any] = json.loads(done.stdout)
    return result


def append_many(folder: Path, count: int, writer: int = 0) -> Mapping[str, Any]:
    """Appends unique entries as one of several writers."""
    log, rng = log_stores.FileLog(folder), random.Random(writer)
    # Some lines are longer than a page, so a reader can see half of one.
    entries = [entry(number, rng) for number in range(200)]
    long = [
        msgspec.structs.replace(item_2, payload={"text": "x" * rng.randrange(200, 9000)}) for item_2 in entries[::10]
    ]
    wall, cpu = time.perf_counter(), time.process_time()
    for number in range(count):
        item = long[number % len(long)] if number % 50 == 0 else entries[number % len(entries)]
        log.append(msgspec.structs.replace(item, decision_id=f"{writer}-{number}"))
    return {"per_second": count / (time.perf_counter() - wall), "per_cpu": count / (time.process_time() - cpu)}


def crowd(folder: Path, num_writers: int, count: int) -> Mapping[str, Any]:
    """Lets many processes append while this one follows. Counts torn, lost and repeated lines."""
    command = [sys.executable, "-m", "bench.governed_logs", "--folder", str(folder), "--append", str(count)]
    writers = [
        subprocess.Popen([*command, "--writer", str(writer)], stdout=subprocess.PIPE, text=True)
        for writer in range(num_writers)
    ]
    observed: dict[str, int] = {}
    try:
        for item in log_stores.FileLog(folder).follow(START, timeout=60, poll_seconds=0.002):
            observed[item.decision_id] = observed.get(item.decision_id, 0) + 1
            if len(observed) == num_writers * count:
                break
        writer_results = [json.loads(writer.communicate(timeout=60)[0]) for writer in writers]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    after = [record.decision_id for record in log_stores.FileLog(folder).read(START, END)]
    return {
        "lines": num_writers * count,
        "torn": num_writers * count - len(after),
        "lost by the tail": num_writers * count - len(observed),
        "seen twice by the tail": sum(times > 1 for times in observed.values()),
        "lines per cpu-second and writer": min(item["per_cpu"] for item in writer_results),
    }


def measure(num_lines: int, folder: Path, *, quick: bool = False) -> tuple[outcome.Tables, list[str]]:
    """Measures everything in an empty folder."""
    generate(folder, num_lines)
    rows: list[list[object]] = []
    for name in PARTS:
        tries = (
            [run_part(name, folder)]
            if quick
            else [parted(name, folder) for _ in range(1 if ANCHOR in name else NUM_TRIES)]
        )
        result = min(tries, key=lambda item: item["cpu_seconds"])
        events = result.get("events", 0)
        seconds = result["cpu_seconds"]
        rows.append(
            [
                name,
                result["decisions"],
                events,
                round(result["decisions"] / seconds),
                round(events / seconds),
                round(result["peak_mb"]),
            ]
        )
    appended = append_many(folder / "one", 2000 if quick else 100_000)
    crowded = crowd(folder / "many", 2 if quick else 8, 500 if quick else 20_000)
    tables: outcome.Tables = {
        "Replay": (["what", "decisions", "events", "decisions per cpu-s", "events per cpu-s", "peak MB"], rows),
        "Append, one process": (["lines per second", "lines per cpu-s"], [list(appended.values())]),
        "Append, many processes, and a live tail": (list(crowded), [list(crowded.values())]),
    }
    notes = [
        f"{num_lines:,} decisions of {NUM_ENTITIES} entities, {int(num_lines * SHARE):,} measurements of 2 metrics; "
        "reading the feedback is part of the replay. The quick form measures all parts in one process."
    ]
    return tables, notes


def measure_columns(folder: Path) -> tuple[outcome.Tables, list[str]]:
    """Measures only the columnar replay of a million decisions, with one decoder as reference."""
    generate(folder, NUM_LINES)
    names = [COLUMNS, "reference: msgspec, line by line"]
    rows = []
    for name in names:
        result = min((parted(name, folder) for _ in range(NUM_TRIES)), key=lambda item: item["cpu_seconds"])
        rows.append(
            [name, result["decisions"], round(result["decisions"] / result["cpu_seconds"]), round(result["peak_mb"])]
        )
    headings = ["what", "decisions", "decisions per cpu-s", "peak MB"]
    return {"Columns": (headings, rows)}, ["The goal is 500,000 decisions per cpu-s and 600 MB; the best of two runs."]


def measure_large(folder: Path) -> tuple[outcome.Tables, list[str]]:
    """Replays ten million decisions once. Reuses a folder that already has them."""
    if not (folder / "feedback").exists():
        generate(folder, LARGE)
    result = parted("replay, paired, 1 reflector", folder)
    headings = ["decisions", "events", "events per cpu-s", "goal", "peak MB", "goal for it"]
    rate = round(result["events"] / result["cpu_seconds"])
    row = [result["decisions"], result["events"], rate, 250_000, round(result["peak_mb"]), 200]
    return {"Replay, paired, 1 reflector": (headings, [row])}, [
        f"{LARGE:,} decisions of {NUM_ENTITIES} entities, {int(LARGE * SHARE):,} measurements; one run."
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lines", type=int, default=NUM_LINES)
    parser.add_argument("--quick", action="store_true", help="a few seconds; saves nothing")
    parser.add_argument("--large", action="store_true", help="ten million decisions; saves governed_logs_large")
    parser.add_argument("--columns", action="store_true", help="only the columnar replay; saves governed_logs_columns")
    parser.add_argument("--part", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--append", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--writer", type=int, default=0, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.part or args.append:
        part = run_part(args.part, args.folder) if args.part else None
        print(json.dumps(part or append_many(args.folder, args.append, args.writer)))
        return
    if args.large or args.columns:
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as temporary:
            if args.columns:
                outcome.keep("governed_logs_columns", *measure_columns(Path(temporary)))
            else:
                outcome.keep("governed_logs_large", *measure_large(args.folder or Path(temporary)))
        return
    num_lines = 5000 if args.quick else args.lines
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        tables, notes = measure(num_lines, Path(folder), quick=args.quick)
    if args.quick:
        outcome.show("governed_logs", tables, notes)
    else:
        outcome.keep("governed_logs", tables, notes)


if __name__ == "__main__":
    main()

"""Race of Atoll, OpenEvolve and simple baselines: the same tasks, LLM and number of LLM calls.

    scripts/bench race --llm openai:NAME@URL --calls 120 --seeds 0 1 2 3 4 --write

The tasks are OpenEvolve folders in bench/tasks/race. Every call passes through a local endpoint that counts calls and
tokens per run. The best program of each run is evaluated again three times; the median is its judged score. Tasks with
a function `evaluate_test` are judged on data that no run sees. Finished runs are saved in `--out`, and a later race
with the same file skips them. Only the standard library is needed here; the systems run in other processes.
"""

import argparse
import concurrent.futures
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from bench import outcome, race_endpoint, race_systems, race_tables

PEERS = True
TASKS = Path(__file__).parent / "tasks" / "race"
DEFAULT_OUT = Path(__file__).parent.parent / ".bench" / "race.jsonl"
DEFAULT_URL = "https://api.openai.com/v1"
SYSTEMS = ("atoll", "openevolve", "best-of-n", "sequential")


class Key(NamedTuple):
    """One run of the race."""

    task: str
    seed: int
    system: str

    def __str__(self) -> str:
        return f"{self.task} {self.system} seed {self.seed}"


class Race:
    """Runs the systems and saves one row per run.

    Args:
        variants: Further options of `atoll run` for each variant.
    """

    def __init__(
        self, options: argparse.Namespace, endpoint: race_endpoint.CountingEndpoint, variants: Mapping[str, list[str]]
    ) -> None:
        self._options = options
        self._endpoint = endpoint
        self._variants = variants
        self._started = time.monotonic()

    def run_all(self, keys: Sequence[Key]) -> Iterator[tuple[Key, dict[str, Any] | None]]:
        """Yields the row of each run as it ends; None if the deadline was over before its start."""
        pool = concurrent.futures.ThreadPoolExecutor(self._options.jobs)
        futures = {pool.submit(self._run_in_time, key): key for key in keys}
        try:
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            race_systems.end_processes()

    def _run_in_time(self, key: Key) -> dict[str, Any] | None:
        if time.monotonic() - self._started > self._options.deadline:
            return None
        return self.run_one(key)

    def run_one(self, key: Key) -> dict[str, Any]:
        """Runs a system and judges its best program. A row of a failed run has the key `error`."""
        options, started = self._options, time.monotonic()
        row: dict[str, Any] = {**key._asdict(), "budget": options.calls, "llm": options.llm}
        name = re.sub(r"\W", "-", f"{Path(key.task).name}-{key.system}-{key.seed}")
        with tempfile.TemporaryDirectory(prefix="race-", ignore_cleanup_errors=True) as temporary:
            folder = race_systems.copy_task(find_task(key.task), Path(temporary))
            job = race_systems.Job(
                key.system,
                folder,
                get_model(options.llm)[0],
                self._endpoint.get_url(name),
                key.seed,
                options.calls,
                options.workers,
                options.limit,
                self._variants.get(key.system, ()),
                options.openevolve_path,
                options.shinka_path,
            )
            try:
                result = race_systems.run(job)
                best = Path(temporary, "best.py")
                best.write_text(result.best)
                row |= {"status": result.status, "judged": race_systems.judge(find_task(key.task), best)}
            except (RuntimeError, OSError, ValueError, KeyError) as error:
                message = " ".join(f"{type(error).__name__}: {error}".split())
                return row | {"error": message, "seconds": time.monotonic() - started}
        usage = self._endpoint.get_usage(name)
        tokens = usage.tokens_in + usage.tokens_out
        fail_score = race_systems.find_fail_score(find_task(key.task))
        row |= race_tables.measure_search(result.programs, usage.calls, options.workers, fail_score)
        row |= usage._asdict() | {"tokens_per_call": tokens / usage.calls if usage.calls else None}
        row |= {"seconds": round(time.monotonic() - started, 1), "program": result.best}
        return row if row["judged"] is not None else row | {"error": "The best program could not be judged."}


def find_task(name: str) -> Path:
    """Returns the folder of a task, which is a name in bench/tasks/race or a path."""
    return TASKS / name if (TASKS / name).is_dir() else Path(name).resolve()


def list_tasks() -> list[str]:
    return sorted(path.parent.name for path in TASKS.glob("*/evaluator.py"))


def get_model(llm: str) -> tuple[str, str]:
    """Returns the name and the URL of an LLM.

    Raises:
        ValueError: It is not an OpenAI-compatible endpoint.
    """
    match = re.fullmatch(r"openai:([^@]+)(?:@(https?://.+))?", llm)
    if match is None:
        raise ValueError(f"--llm {llm} is not an OpenAI-compatible endpoint. Pass openai:NAME@URL.")
    return match[1], match[2] or DEFAULT_URL


def read_rows(path: Path, calls: int, llm: str) -> dict[Key, dict[str, Any]]:
    """Returns the finished runs of a file with this number of calls and this LLM name."""
    lines = path.read_text().splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines if line.startswith("{") and line.endswith("}")]
    model = get_model(llm)[0]
    return {
        Key(row["task"], row["seed"], row["system"]): row
        for row in rows
        if "error" not in row and row["budget"] == calls and get_model(row["llm"])[0] == model
    }


def parse_options(arguments: Sequence[str] | None) -> tuple[argparse.Namespace, dict[str, list[str]]]:
    parser = argparse.ArgumentParser(prog="scripts/bench race", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--llm", required=True, help="LLM as openai:NAME@URL, any OpenAI-compatible endpoint")
    parser.add_argument("--calls", type=int, default=120, help="LLM calls of each run")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--tasks", nargs="+", default=list_tasks(), help="names in bench/tasks/race, or folders")
    parser.add_argument("--systems", nargs="+", default=list(SYSTEMS))
    parser.add_argument(
        "--extra", action="append", default=[], metavar="atoll:NAME=OPTIONS", help="add Atoll with options; repeatable"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs in parallel")
    parser.add_argument("--workers", type=int, default=4, help="iterations in parallel in each run")
    parser.add_argument("--limit", type=float, default=1800.0, help="seconds until a run is killed")
    parser.add_argument("--deadline", type=float, default=float("inf"), help="seconds after which no run starts")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUT, help="file of finished runs, continued if it exists")
    parser.add_argument("--openevolve-path", default="", help="folder that has the package openevolve")
    parser.add_argument("--shinka-path", default="", help="folder that has the package shinka, for --systems shinka")
    parser.add_argument("--no-peers", action="store_true", help="without OpenEvolve")
    parser.add_argument("--write", action="store_true", help="save the tables in bench/results")
    options = parser.parse_args(arguments)
    try:
        get_model(options.llm)
        variants = dict(race_systems.parse_variant(text) for text in options.extra)
    except ValueError as error:
        parser.error(str(error))
    if missing := [task for task in options.tasks if not (find_task(task) / "evaluator.py").exists()]:
        parser.error(f"tasks not found: {', '.join(missing)}; names: {', '.join(list_tasks())}")
    return options, variants


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the race and prints its tables."""
    options, variants = parse_options(arguments)
    systems, notes = list[str](), list[str]()
    for system in dict.fromkeys([*options.systems, *variants]):
        obstacle = race_systems.find_obstacle(system, options.openevolve_path, options.shinka_path)
        if system == "openevolve" and options.no_peers:
            obstacle = "--no-peers"
        if obstacle:
            notes.append(f"{system} was not run: {obstacle}.")
            print(notes[-1], file=sys.stderr)
        else:
            systems.append(system)
    keys = [Key(task, seed, system) for seed in options.seeds for task in options.tasks for system in systems]
    done = read_rows(options.out, options.calls, options.llm)
    rows = {key: done[key] for key in keys if key in done}
    missing, failed = list[Key](), list[str]()
    options.out.parent.mkdir(parents=True, exist_ok=True)
    with race_endpoint.CountingEndpoint(get_model(options.llm)[1]) as endpoint, options.out.open("a") as file:
        for key, row in Race(options, endpoint, variants).run_all([key for key in keys if key not in rows]):
            if row is None:
                missing.append(key)
                continue
            file.write(json.dumps(row) + "\n")
            file.flush()
            if "error" in row:
                failed.append(f"{key}: {row['error']}")
            else:
                rows[key] = row
            print(describe(key, row), file=sys.stderr, flush=True)
    notes += [f"{len(missing)} runs were not started before the deadline: {', '.join(map(str, missing))}."] * bool(
        missing
    )
    notes += [f"{len(failed)} runs failed: {'; '.join(failed)[:2000]}."] * bool(failed)
    short = [f"{key}: {row['status']}" for key, row in rows.items() if is_short(row, options.calls)]
    notes += [f"{len(short)} runs ended before their last call: {'; '.join(short)}."] * bool(short)
    show(options, [rows[key] for key in keys if key in rows], notes)


def is_short(row: Mapping[str, Any], calls: int) -> bool:
    return bool(row["status"] != "done" or row["calls"] < calls)


def describe(key: Key, row: Mapping[str, Any]) -> str:
    if "error" in row:
        return f"{key}: {row['error'][:300]}"
    return f"{key}: {row['judged']:.4g} after {row['calls']} calls, {row['status']}, {row['seconds']:.0f} s"


def show(options: argparse.Namespace, rows: Sequence[Mapping[str, Any]], notes: Sequence[str]) -> None:
    """Prints the tables, and saves them with `--write`."""
    initial = {
        task: race_systems.judge(find_task(task), find_task(task) / "initial_program.py")
        for task in dict.fromkeys(row["task"] for row in rows)
    }
    tables = race_tables.make_tables(rows, initial)
    notes = [
        f"Each run has {options.calls} LLM calls and {options.workers} iterations in parallel. The columns are medians "
        "over runs. Yield is the number of distinct evaluated programs per call, valid the number of those that did "
        "not fail; programs of Atoll's tuner, which need no call, only count as evaluations. From the best and from "
        "the initial are shares of the children with such a parent. The first mean share compares the median of each "
        "task with the best median, the share by run compares every run with the best one. The last table compares two "
        "systems by the seeds that both have. A higher score is better on every task.",
        *notes,
    ]
    if options.write:
        outcome.keep("race", tables, notes, runs=[{k: v for k, v in row.items() if k != "program"} for row in rows])
    else:
        outcome.show("race", tables, notes)


if __name__ == "__main__":
    main()

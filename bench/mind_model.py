"""Mind Evolution and its baselines with a real LLM on ten easy problems of each task, run by the command line.

    scripts/bench mind_model --data DIR --llm openai:local@http://127.0.0.1:8100/v1 --jobs 64

The problems are the first ten trips of 3 to 4 cities, days with 2 to 3 friends, and calendars of one day with 2 to 3
participants, in the order of the files. This choice was made before any run. Each method may make CALLS calls per
problem: a response without a plan counts as a call and is not requested again. In total these are at most 3,630 calls.

A method that is finished is not run again, and an interrupted one continues where it ended: call the same command
again. Work files are in `.bench/mind_model`; remove the folder to start from the beginning.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import mind, outcome

ROOT = Path(__file__).parents[1]
TASK = ROOT / "examples" / "mind_natural_plan"
FILES = {"trip": "trip_planning_60", "meeting": "meeting_planning_60", "calendar": "calendar_scheduling_60"}
NUMBER = 10  # problems of each task
METHODS = {
    "mind": "Mind Evolution",
    "best_of_n": "Best-of-N",
    "sequential": "Sequential-Revision+",
    "one_pass": "1-Pass",
}
GENS, ISLANDS, CONVS, SEQ, THREADS = 5, 2, 1, 4, 4
CALLS = GENS * ISLANDS * CONVS * SEQ
LONGEST = 700  # tokens per response
TEMPERATURE = 0.7
SETTINGS = {
    "mind.num_gens": GENS,
    "mind.num_islands": ISLANDS,
    "mind.num_convs": CONVS,
    "mind.num_seq": SEQ,
    "mind.num_threads": THREADS,
    "mind.num_plans": CALLS,
    "mind.patience": 0,
    "mind.num_repeats": 0,  # every method uses all of its calls
    "mind.num_retries": 0,
    "mind.elect": "difference",  # no calls for the choice of elites
    "llm.max_tokens": LONGEST,
    "llm.temperature": TEMPERATURE,
    "llm.timeout_seconds": 600,
}


def is_easy(task: str, row: Mapping[str, Any]) -> bool:
    if task == "trip":
        return int(row["num_cities"]) in (3, 4)
    if task == "meeting":
        return int(row["num_people"]) in (2, 3)
    return int(row["num_people"]) in (2, 3) and int(row["num_days"]) == 1


def choose(folder: Path, target: Path, number: int) -> int:
    """Writes the problems to a file and returns their number."""
    lines = list[str]()
    for task, name in FILES.items():
        rows = (folder / f"{name}.jsonl").read_text("utf-8").splitlines()
        lines += [line for line in rows if is_easy(task, json.loads(line))][:number]
    target.write_text("\n".join(lines) + "\n", "utf-8")
    return len(lines)


def run(method: str, work: Path, num_problems: int, args: argparse.Namespace) -> dict[str, Any]:
    """Runs or resumes one method on all problems by the command line. Returns its JSON and its seconds."""
    database, atoll = work / f"{method}.db", [sys.executable, "-m", "atoll"]
    options = ["--store", str(database), "--llm", args.llm, "--workers", str(args.jobs), "--json"]
    # Conversations about one problem follow each other, because each one continues the earlier ones.
    window = min(args.jobs, num_problems) if method == "mind" else args.jobs
    changes = {**SETTINGS, "task.data": work / "problems.jsonl", "method": method, "run.window": window}
    sets = [name for key, value in changes.items() for name in ("--set", f"{key}={value}")]
    if database.exists():
        command = [*atoll, "resume", "latest", *options]
    else:
        command = [*atoll, "run", str(TASK), "--seed", str(args.seed), "--iterations", "100000", *sets, *options]
    since = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{method} ended with {done.returncode}; see its output above. Call the same command again.")
    return {**json.loads(done.stdout), "wall": time.monotonic() - since, "machine": outcome.machine()}


def get_solved(result: Mapping[str, Any], task: str) -> list[float]:
    return [float(one["solved"]) for one in result["instances"] if one["id"].startswith(task) or not task]


def make_row(name: str, result: Mapping[str, Any], best: Mapping[str, Any], task: str) -> list[object]:
    solved, instances = get_solved(result, task), [one for one in result["instances"] if one["id"].startswith(task)]
    calls = statistics.fmean(one["calls"] for one in instances)
    tokens = statistics.fmean(one["tokens"] for one in instances)
    middle, low, high = mind.difference(get_solved(best, task), solved)
    above = f"{middle:+.0f} ({low:+.0f} to {high:+.0f})" if result is not best else ""
    return [task or "all", name, f"{sum(solved):.0f} of {len(solved)}", f"{calls:.1f}", f"{tokens:,.0f}", above]


def keep(results: Mapping[str, Mapping[str, Any]], args: argparse.Namespace) -> None:
    """Saves the table of the methods so far."""
    best = results.get("mind") or next(iter(results.values()))
    rows = [
        make_row(METHODS[method], result, best, task)
        for task in (*FILES, "")
        for method, result in results.items()
        if get_solved(result, task)
    ]
    columns = ["task", "method", "solved", "calls", "tokens", "Mind Evolution is above by, in points (95 %)"]
    note = (
        f"At most {CALLS} calls per problem and method ({GENS} generations, {ISLANDS} islands, {CONVS} conversation, "
        f"{SEQ} turns; {THREADS} conversations of Sequential-Revision+), responses of at most {LONGEST} tokens, "
        f"temperature {TEMPERATURE}, seed {args.seed}. Calls and tokens are means per problem. A problem is solved if "
        "its best plan breaks no constraint of the text and, on a day of meetings, meets as many friends as the "
        "solution in the file, which only the grader reads. Intervals: problems resampled in pairs, "
        f"{mind.RESAMPLES} times."
    )
    seconds = {method: round(result["wall"]) for method, result in results.items()}
    total = sum(result["calls"] for result in results.values())
    notes = [note, f"{total} calls in total. Seconds of the last session: {json.dumps(seconds)}."]
    outcome.keep("mind_model", {"Easy problems with a real model": (columns, rows)}, notes, model=args.llm, calls=CALLS)


def load_part(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text("utf-8")) if path.exists() else None


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the public samples")
    parser.add_argument("--llm", required=True, help="as in atoll run: openai:NAME@URL")
    parser.add_argument("--jobs", type=int, default=16, help="calls in flight")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--number", type=int, default=NUMBER, help="problems of each task")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--work", type=Path, default=ROOT / ".bench" / "mind_model", help="folder of the work files")
    args = parser.parse_args(words)
    args.work.mkdir(parents=True, exist_ok=True)
    num_problems = choose(args.data, args.work / "problems.jsonl", args.number)
    for method in args.methods:
        part = args.work / f"{method}.json"
        if not part.exists():
            part.write_text(json.dumps(run(method, args.work, num_problems, args)), "utf-8")
        parts = {name: load_part(args.work / f"{name}.json") for name in METHODS}
        keep({name: result for name, result in parts.items() if result is not None}, args)


if __name__ == "__main__":
    main()

"""Mind Evolution and its baselines with a real LLM on ten problems, run by the command line.

    scripts/bench mind_model --data DIR --llm local             # a small LLM: many hours
    scripts/bench mind_model --data DIR --llm llamacpp:NAME --workers 16                # your own server

The problems are every twelfth of the public trip and meeting samples, from the first one on. This choice was made
before any run. Each method may make as many plans per problem as Mind Evolution. A response without a plan is requested
once more, which counts as a call. A finished method is saved with its machine and not run again.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import outcome

TASK = Path(__file__).parents[1] / "examples" / "mind_natural_plan"
FILES = ("trip_planning_60.jsonl", "meeting_planning_60.jsonl")
EVERY, NUMBER = 12, 10
METHODS = {
    "one_pass": "1-Pass",
    "best_of_n": "Best-of-N",
    "sequential": "Sequential-Revision+",
    "mind": "Mind Evolution",
}
GENS, ISLANDS, CONVS, SEQ = 5, 2, 2, 4
PLANS = GENS * ISLANDS * CONVS * SEQ
RETRIES = 1
LONGEST = 1024  # tokens per response
SECONDS = 36_000  # for one method
SETTINGS = {
    "mind.num_gens": GENS,
    "mind.num_islands": ISLANDS,
    "mind.num_convs": CONVS,
    "mind.num_seq": SEQ,
    "mind.patience": 0,
    "mind.num_retries": RETRIES,
    "llm.max_tokens": LONGEST,
    "llm.timeout_seconds": 600,
    "run.window": NUMBER * CONVS,  # conversations of an island per generation, for all problems
}


def chosen(folder: Path, temporary: Path) -> Path:
    """Writes the problems to a file and returns it."""
    lines = [line for name in FILES for line in (folder / name).read_text("utf-8").splitlines()[::EVERY]]
    path = temporary / "ten.jsonl"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def run(method: str, path: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Runs one method on all problems by the command line. Returns its JSON and its seconds."""
    changes = {**SETTINGS, "task.data": path, "method": method}
    sets = [name for key, value in changes.items() for name in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "atoll", "run", str(TASK), "--llm", options.llm, *sets, "--json"]
    command += [
        "--workers",
        str(options.workers),
        "--seed",
        str(options.seed),
        "--store",
        str(path.parent / "atoll.db"),
    ]
    command += ["--budget", options.budget] if options.budget else []
    since = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SystemExit(f"{method} ended with {done.returncode}; see its output above.")
    return {**json.loads(done.stdout), "wall": time.monotonic() - since, "machine": outcome.machine()}


def part(method: str) -> Path:
    """Returns the result file of a method. Separate files allow parallel runs."""
    return outcome.RESULTS_DIR / f"mind_model_{method}.parts.json"


def done_with(llm: str) -> dict[str, Any]:
    """Returns the finished methods of an LLM."""
    result = {method: json.loads(part(method).read_text("utf-8")) for method in METHODS if part(method).exists()}
    return {method: item for method, item in result.items() if item["llm"] == llm}


def row(name: str, result: Mapping[str, Any]) -> list[object]:
    item, number = result["instances"], len(result["instances"])
    trips = [one["solved"] for one in item if one["id"].startswith("trip")]
    days = [one["solved"] for one in item if one["id"].startswith("meeting")]
    share = f"{result['solved']} of {result['total']} ({sum(trips)} trips, {sum(days)} days of meetings)"
    effort = [result["calls"] / number, result["evaluations_per_problem"], result["tokens_in"] / number]
    return [name, share, *effort, result["tokens_out"] / number, round(result["wall"])]


def by_problem(done: Mapping[str, Mapping[str, Any]]) -> list[list[object]]:
    """Returns the score of each method's best plan by problem."""
    ids = [one["id"] for one in next(iter(done.values()))["instances"]]
    scores = {
        method: {one["id"]: f"{'solved' if one['solved'] else 'no'}, {one['score']}" for one in result["instances"]}
        for method, result in done.items()
    }
    return [[id, *(scores[method][id] for method in done)] for id in ids]


def keep(done: Mapping[str, Mapping[str, Any]], value: argparse.Namespace) -> None:
    columns = ["method", "solved", "calls", "different plans evaluated", "tokens in", "tokens out", "total wall s"]
    note = (
        f"At most {PLANS} plans a problem ({GENS} generations, {ISLANDS} islands, {CONVS} conversations, {SEQ} turns), "
        f"{RETRIES} further attempt if a response has no plan, responses of at most {LONGEST} tokens, seed "
        f"{value.seed}. Calls, plans and tokens are means per problem. A problem is solved if its best plan breaks no "
        "constraint and is as good as the solution in the file, which only the grader reads. The scores beside it are "
        "the task's: a trip is perfect at 0 and loses 1 for each fault; a day of meetings has 1 for each friend met."
    )
    tables: outcome.Tables = {
        "Ten problems with a real model": (columns, [row(METHODS[method], result) for method, result in done.items()]),
        "Problem by problem": (["problem", *(METHODS[method] for method in done)], by_problem(done)),
    }
    machines = {method: result["machine"] for method, result in done.items()}
    notes = [note, f"Where the runs ran: {json.dumps(machines)}."]
    outcome.keep("mind_model", tables, notes, model=value.llm, plans=PLANS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the public samples")
    parser.add_argument("--llm", default="local")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", help="of each method, as atoll run has it: 10m")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    args = parser.parse_args()
    for method in args.methods:
        if method not in done_with(args.llm):
            with tempfile.TemporaryDirectory() as temporary:
                result = run(method, chosen(args.data, Path(temporary)), args)
            part(method).write_text(json.dumps(result), "utf-8")
        keep(done_with(args.llm), args)


if __name__ == "__main__":
    main()

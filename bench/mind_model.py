"""Mind Evolution and its baselines with a real model on ten problems, run as anybody would run them.

    scripts/bench mind_model --data DIR --llm local             # a small model: many hours
    scripts/bench mind_model --data DIR --llm llamacpp:NAME --workers 16                # a server of one's own

The problems are every twelfth of the public samples of trips and of meetings, from the first one on: a choice made
before any of them was run. Each method may make as many plans a problem as Mind Evolution; a reply without a plan is
asked for once more, which counts as a call. A method that is done is kept beside the results, with the machine that it
ran on, and not run again.
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
LONGEST = 1024  # tokens of a reply
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
    "run.window": NUMBER * CONVS,  # an island's conversations of a generation, for all problems
}


def chosen(folder: Path, made: Path) -> Path:
    """Writes the problems to a file of their own and returns it."""
    lines = [line for name in FILES for line in (folder / name).read_text("utf-8").splitlines()[::EVERY]]
    path = made / "ten.jsonl"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def run(method: str, path: Path, given: argparse.Namespace) -> dict[str, Any]:
    """Runs one method on all problems by the command line; returns what its JSON says and how long it took."""
    changes = {**SETTINGS, "task.data": path, "method": method}
    sets = [each for key, value in changes.items() for each in ("--set", f"{key}={value}")]
    command = [sys.executable, "-m", "atoll", "run", str(TASK), "--llm", given.llm, *sets, "--json"]
    command += ["--workers", str(given.workers), "--seed", str(given.seed), "--store", str(path.parent / "atoll.db")]
    command += ["--budget", given.budget] if given.budget else []
    since = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    if done.returncode:
        raise SystemExit(f"{method} ended with {done.returncode}; its words are above.")
    return {**json.loads(done.stdout), "wall": time.monotonic() - since, "machine": outcome.machine()}


def part(method: str) -> Path:
    """Returns where a method's outcome is kept; one file each, so that methods can run side by side."""
    return outcome.RESULTS_DIR / f"mind_model_{method}.parts.json"


def done_with(llm: str) -> dict[str, Any]:
    """Returns what is done with a model, by method."""
    found = {method: json.loads(part(method).read_text("utf-8")) for method in METHODS if part(method).exists()}
    return {method: each for method, each in found.items() if each["llm"] == llm}


def row(name: str, found: Mapping[str, Any]) -> list[object]:
    each, number = found["instances"], len(found["instances"])
    trips = [one["solved"] for one in each if one["id"].startswith("trip")]
    days = [one["solved"] for one in each if one["id"].startswith("meeting")]
    share = f"{found['solved']} of {found['total']} ({sum(trips)} trips, {sum(days)} days of meetings)"
    effort = [found["calls"] / number, found["evaluations_per_problem"], found["tokens_in"] / number]
    return [name, share, *effort, found["tokens_out"] / number, round(found["wall"])]


def by_problem(done: Mapping[str, Mapping[str, Any]]) -> list[list[object]]:
    """Returns what each method's best plan for each problem came to."""
    ids = [one["id"] for one in next(iter(done.values()))["instances"]]
    told = {
        method: {one["id"]: f"{'solved' if one['solved'] else 'no'}, {one['score']}" for one in found["instances"]}
        for method, found in done.items()
    }
    return [[id, *(told[method][id] for method in done)] for id in ids]


def keep(done: Mapping[str, Mapping[str, Any]], given: argparse.Namespace) -> None:
    columns = ["method", "solved", "calls", "different plans judged", "tokens in", "tokens out", "wall s in all"]
    note = (
        f"At most {PLANS} plans a problem ({GENS} generations, {ISLANDS} islands, {CONVS} conversations, {SEQ} turns), "
        f"{RETRIES} further attempt where a reply holds no plan, replies of at most {LONGEST} tokens, seed "
        f"{given.seed}. Calls, plans and tokens are means per problem. A problem is solved if its best plan breaks no "
        "constraint and is as good as the solution in the file, which only the grader reads. The scores beside it are "
        "the task's: a trip is perfect at 0 and loses 1 for each fault; a day of meetings has 1 for each friend met."
    )
    tables: outcome.Tables = {
        "Ten problems with a real model": (columns, [row(METHODS[method], found) for method, found in done.items()]),
        "Problem by problem": (["problem", *(METHODS[method] for method in done)], by_problem(done)),
    }
    machines = {method: found["machine"] for method, found in done.items()}
    notes = [note, f"Where the runs ran: {json.dumps(machines)}."]
    outcome.keep("mind_model", tables, notes, model=given.llm, plans=PLANS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder with the public samples")
    parser.add_argument("--llm", default="local")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--budget", help="of each method, as atoll run has it: 10m")
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=list(METHODS))
    given = parser.parse_args()
    for method in given.methods:
        if method not in done_with(given.llm):
            with tempfile.TemporaryDirectory() as made:
                found = run(method, chosen(given.data, Path(made)), given)
            part(method).write_text(json.dumps(found), "utf-8")
        keep(done_with(given.llm), given)


if __name__ == "__main__":
    main()

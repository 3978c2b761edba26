"""Mind Evolution, Best-of-N and Sequential-Revision+ at equal calls, with a scripted noisy LLM.

The LLM (bench/tasks/noisy_planner.py) reads only the prompt and repairs a named error with probability p. The three
values of p were fixed before any method was run with it. The problems are the public Natural Plan samples of --data, a
folder with trip_planning_60.jsonl and meeting_planning_60.jsonl; without it, generated ones of the same shape. All
methods stop at the first plan that satisfies the evaluator, and make at most CALLS calls per problem. Another process
compares each plan with the solution to decide whether the problem is solved.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from atoll import cluster, llm
from atoll.mind import build, fitness, plan_evaluator
from atoll.mind import problems as mind_problems
from atoll.mind.config import Options
from atoll.mind.tasks import generate, load
from bench import outcome
from bench.tasks import noisy_planner

PROBABILITIES = (0.3, 0.5, 0.7)  # fixed before any method was run
MIDDLE = 0.5  # of the ablations
SEEDS = (0, 1)
GENS, ISLANDS, CONVS, SEQ = 10, 4, 2, 4
CALLS = GENS * ISLANDS * CONVS * SEQ
USUAL: Mapping[str, Any] = {
    "num_gens": GENS,
    "num_islands": ISLANDS,
    "num_convs": CONVS,
    "num_seq": SEQ,
    "patience": 0,
    "elect": "difference",
}
METHODS: Mapping[str, Mapping[str, Any]] = {
    "Mind Evolution": {},
    "Best-of-N": {"method": "best_of_n"},
    "Sequential-Revision+": {"method": "sequential"},
    "1-Pass": {"method": "one_pass"},
}
ABLATIONS: Mapping[str, Mapping[str, Any]] = {
    "no critic": {"critic": False, "questions": False},
    "no text feedback": {"feedback": False},
    "one island": {"num_islands": 1, "num_convs": CONVS * ISLANDS},
    "reset by fitness alone": {"elect": "fitness"},
}
TASKS = ("trip", "meeting")
RESAMPLES = 2000
COLUMNS = [
    "task", "p", "method", "solved %", "calls", "tokens in / out", "US$", "Mind Evolution is above by (95 %)",
]  # fmt: skip
TITLES = ("Methods at equal calls", f"Ablations, p {MIDDLE}")


def problems_of(task: str, folder: Path | None, temporary: Path) -> Path:
    """Returns the file of a task; generates one without data."""
    if folder is not None:
        return folder / f"{task}_{'scheduling' if task == 'calendar' else 'planning'}_60.jsonl"
    path = temporary / f"{task}.jsonl"
    path.write_text(generate.to_lines(generate.generate_rows(task, 12, 7)), "utf-8")
    return path


def run(path: Path, changes: Mapping[str, Any], p: float, seed: int) -> dict[str, Any]:
    """Searches all problems of a file with one method. Returns the results by problem."""
    problems = load.load_problems(path, seed)
    about = mind_problems.ProblemSet(
        problems,
        plan_evaluator.PlanEvaluator({problem.id: problem for problem in problems}, fitness.BALANCED),
        path.name,
        grade=lambda plans: load.grade_in_subprocess(path, plans),
    )
    built = build.assemble(
        about, Options(**{**USUAL, **changes}), llm.JournaledLLM(noisy_planner.NoisyPlanner(p, seed))
    )
    config = cluster.EvolverConfig(
        built.config.island_config,
        1,
        None,
        built.config.schedule,
        stop_rules=built.config.stop_rules,
        learner=built.config.learner,
        seed=seed,
        ordered=True,
        window=1,
    )
    evolver, since = cluster.Evolver(config), time.process_time()
    evolver.run()
    assert built.summarize_result is not None
    result: dict[str, Any] = dict(built.summarize_result(evolver))
    cost = evolver.usage.cost
    most = max(row["calls"] for row in result["instances"])
    assert most <= CALLS, f"{most} calls for a problem, not {CALLS}"
    return {
        "solved": [bool(row["solved"]) for row in result["instances"]],
        "calls": cost.calls / len(problems),
        "tokens_in": cost.tokens_in / len(problems),
        "tokens_out": cost.tokens_out / len(problems),
        "usd": cost.usd / len(problems),
        "cpu": time.process_time() - since,
    }


def over_seeds(path: Path, changes: Mapping[str, Any], p: float, seeds: Sequence[int]) -> dict[str, Any]:
    """Returns the mean over seeds; `solved` is the share of seeds per problem."""
    runs = [run(path, changes, p, seed) for seed in seeds]
    shares = [statistics.fmean(item) for item in zip(*(one["solved"] for one in runs), strict=True)]
    means = {name: statistics.fmean(one[name] for one in runs) for name in runs[0] if name != "solved"}
    return {"solved": shares, **means}


def difference(one: Sequence[float], other: Sequence[float]) -> tuple[float, float, float]:
    """Returns the mean difference of two methods in points, with a 95 % interval of paired resampling."""
    pairs, rng = [100 * (a - b) for a, b in zip(one, other, strict=True)], Random(0)
    means = sorted(statistics.fmean(rng.choices(pairs, k=len(pairs))) for _ in range(RESAMPLES))
    return statistics.fmean(pairs), means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES) - 1]


def row(task: str, p: float, name: str, result: Mapping[str, Any], best: Mapping[str, Any]) -> list[object]:
    middle, low, high = difference(best["solved"], result["solved"])
    beaten = f"{middle:+.1f} ({low:+.1f} to {high:+.1f})" if result is not best else ""
    share = 100 * statistics.fmean(result["solved"])
    tokens = f"{result['tokens_in']:,.0f} / {result['tokens_out']:,.0f}"
    return [task, p, name, f"{share:.1f}", f"{result['calls']:.0f}", tokens, f"{result['usd']:.4f}", beaten]


def make_note(args: argparse.Namespace, seconds: float) -> str:
    return (
        f"At most {CALLS} calls per problem and method; calls, tokens and US$ are means per problem. US$ at the "
        f"paper's prices of Gemini 1.5 Flash ({noisy_planner.PRICE_IN} and {noisy_planner.PRICE_OUT} per million "
        "tokens in and out), tokens counted as a quarter of the characters. Intervals: problems resampled in pairs, "
        f"{RESAMPLES} times; seeds {args.seeds}. CPU{' of the last session' * args.go_on}: {seconds:.0f} s."
    )


def keep(compared: list[list[object]], ablated: list[list[object]], args: argparse.Namespace, seconds: float) -> None:
    """Saves the tables so far, so that an interrupted run keeps them."""
    tables = dict(zip(TITLES, ((COLUMNS, compared), (COLUMNS, ablated)), strict=True))
    outcome.keep(
        "mind", tables, [make_note(args, seconds)], data=args.data is not None, seeds=list(args.seeds), calls=CALLS
    )


def load_saved(args: argparse.Namespace) -> tuple[list[list[object]], list[list[object]]]:
    """Returns the saved rows of an interrupted run with the same data and seeds."""
    result = json.loads((outcome.RESULTS_DIR / "mind.json").read_text("utf-8"))
    if (result["data"], result["seeds"]) != (args.data is not None, args.seeds):
        raise SystemExit("The saved tables are of other data or seeds. Start again without --go-on.")
    compared, ablated = (result[title] for title in TITLES)
    return [list(item.values()) for item in compared], [list(item.values()) for item in ablated]


def ablate(args: argparse.Namespace) -> None:
    """Runs only some ablations, with enough seeds for small differences."""
    rows, since = list[list[object]](), time.process_time()
    with tempfile.TemporaryDirectory() as temporary:
        for task in args.tasks:
            path = problems_of(task, args.data, Path(temporary))
            changes = {"all of it": {}, **{name: ABLATIONS[name] for name in args.ablations}}
            result = {name: over_seeds(path, item, MIDDLE, args.seeds) for name, item in changes.items()}
            rows += [row(task, MIDDLE, name, item, result["all of it"]) for name, item in result.items()]
    notes = [make_note(args, time.process_time() - since)]
    outcome.keep("mind_ablations", {TITLES[1]: (COLUMNS, rows)}, notes, bench="mind", seeds=list(args.seeds))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the public samples")
    parser.add_argument("--seeds", type=int, nargs="*", default=list(SEEDS))
    parser.add_argument("--tasks", nargs="*", default=TASKS, choices=TASKS)
    parser.add_argument(
        "--go-on", action="store_true", help="continue after the saved tables of the same data and seeds"
    )
    parser.add_argument("--ablations", nargs="*", choices=list(ABLATIONS), help="run only these; save mind_ablations")
    args = parser.parse_args()
    if args.ablations:
        ablate(args)
        return
    compared, ablated, since = list[list[object]](), list[list[object]](), time.process_time()
    order = sorted(PROBABILITIES, key=lambda p: p != MIDDLE)  # the middle one first, with its ablations
    if args.go_on:
        compared, ablated = load_saved(args)
    with tempfile.TemporaryDirectory() as temporary:
        for p, task in itertools.product(order, args.tasks):
            if [task, p] in [item[:2] for item in compared]:
                continue
            path = problems_of(task, args.data, Path(temporary))
            result = {name: over_seeds(path, changes, p, args.seeds) for name, changes in METHODS.items()}
            best = result["Mind Evolution"]
            compared += [row(task, p, name, item, best) for name, item in result.items()]
            keep(compared, ablated, args, time.process_time() - since)
            if p == MIDDLE:
                cut = {name: over_seeds(path, changes, p, args.seeds) for name, changes in ABLATIONS.items()}
                ablated += [row(task, p, name, item, best) for name, item in {"all of it": best, **cut}.items()]
                keep(compared, ablated, args, time.process_time() - since)


if __name__ == "__main__":
    main()

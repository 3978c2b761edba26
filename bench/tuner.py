"""Tuner compared with Optuna's TPE and random search at equal evaluations, all from the same start.

    scripts/bench tuner                # 20 seeds; some minutes
    scripts/bench tuner --no-peers     # without Optuna, only with random search

Four standard functions and two heuristics with constants, with the seeds of all earlier versions and with others, and
the problems on which the rules of the tuner were chosen. Lower is better. Differences are tested by the paired Wilcoxon
test over the seeds. Finished searches are kept in `results/tuner.parts.json` until `--fresh`.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from atoll.mutation.tuner import minimize
from bench import outcome
from bench.tuner_problems import DEVELOPMENT, TEST, Problem

PEERS = True
PARTS = outcome.RESULTS_DIR / "tuner.parts.json"
PEER_PYTHON = Path(".venv-peers/bin/python")
MARKS = (50, 200)
TESTED = "paired Wilcoxon test, 0.05."


def ours(problem: Problem, seed: int) -> list[float]:
    """Returns the best value after each evaluation."""
    observed: list[float] = []

    def watched(*values: float) -> float:
        observed.append(problem.fn(*values))
        return observed[-1]

    minimize(watched, problem.space, budget=MARKS[-1], seed=seed)
    return [float(item) for item in np.minimum.accumulate(observed)]


def at_random(problem: Problem, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    points = [[item.start for item in problem.space]]
    points += [
        [item.low + rng.random() * (item.high - item.low) for item in problem.space] for _ in range(MARKS[-1] - 1)
    ]
    return [float(item) for item in np.minimum.accumulate([problem.fn(*point) for point in points])]


def tpe(problem: Problem, seed: int) -> list[float]:
    return [float(item) for item in np.minimum.accumulate(ask_optuna(problem, seed, MARKS[-1]))]


def ask_optuna(problem: Problem, seed: int, budget: int) -> list[float]:
    """Asks Optuna in its own environment for each point and returns it the value, so that all share one function."""
    command = [str(PEER_PYTHON), "-c", _PEER, json.dumps([[item.low, item.high, item.start] for item in problem.space])]
    with subprocess.Popen(
        [*command, str(seed), str(budget)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        observed: list[float] = []
        for line in peer.stdout:
            observed.append(float(problem.fn(*json.loads(line))))
            peer.stdin.write(f"{observed[-1]!r}\n")
            peer.stdin.flush()
    if len(observed) != budget:
        sys.exit(f"Optuna ended after {len(observed)} evaluations. See its output above.")
    return observed


_PEER = """
import json, sys
import optuna

optuna.logging.set_verbosity(optuna.logging.ERROR)
space, seed, budget = json.loads(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
study.enqueue_trial({f"x{n}": start for n, (_, _, start) in enumerate(space)})

def objective(trial):
    print(json.dumps([trial.suggest_float(f"x{n}", low, high) for n, (low, high, _) in enumerate(space)]), flush=True)
    return float(sys.stdin.readline())

study.optimize(objective, n_trials=budget)
"""


def verdict(one: Sequence[float], other: Sequence[float]) -> tuple[str, float]:
    """Returns whether the first is better, worse or neither over the seeds, with the p-value of the paired test."""
    differences = np.array(one) - np.array(other)
    if not differences.any():
        return "equal", 1.0
    p = float(stats.wilcoxon(differences).pvalue)
    return ("better" if np.median(differences) < 0 else "worse") if p < 0.05 else "equal", p


class Group(NamedTuple):
    """Content of one table.

    Attributes:
        first: The first seed.
    """

    problems: Mapping[str, Problem]
    first: int


GROUPS: Mapping[str, Group] = {"test": Group(TEST, 0), "fresh": Group(TEST, 1000), "development": Group(DEVELOPMENT, 0)}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--groups", nargs="+", choices=list(GROUPS), default=list(GROUPS), help="tables to make")
    parser.add_argument("--no-peers", action="store_true", help="without Optuna")
    parser.add_argument("--fresh", action="store_true", help="run everything again")
    args = parser.parse_args()
    searches = {"Atoll": ours, "random": at_random} | ({} if args.no_peers else {"TPE": tpe})
    parts: dict[str, list[float]] = json.loads(PARTS.read_text()) if PARTS.exists() and not args.fresh else {}
    groups = {name: GROUPS[name] for name in args.groups}
    for group in groups.values():
        measure(parts, group, searches, args.seeds)
    tables, notes = {}, [f"{args.seeds} seeds; the start is the first evaluation of every search; {TESTED}"]
    for name, group in groups.items():
        columns, rows = compared(parts, group, list(searches), args.seeds)
        tables[f"Lowest value found: {name}, seeds from {group.first}"] = (columns, rows)
        notes.append(f"{name}: {summed(rows, len(searches) - 1, len(group.problems))}")
    outcome.keep("tuner", tables, [*notes, costs(searches)])


def measure(
    parts: dict[str, list[float]],
    group: Group,
    searches: Mapping[str, Callable[[Problem, int], list[float]]],
    seeds: int,
) -> None:
    """Runs and saves the missing searches."""
    for name, problem in group.problems.items():
        for who, search in searches.items():
            for seed in range(group.first, group.first + seeds):
                if f"{name}/{who}/{seed}" not in parts:
                    curve = search(problem, seed)
                    parts[f"{name}/{who}/{seed}"] = [curve[min(mark, len(curve)) - 1] for mark in MARKS]
            PARTS.write_text(json.dumps(parts) + "\n")
            print(name, who, flush=True)


def compared(
    parts: Mapping[str, Sequence[float]], group: Group, searches: Sequence[str], seeds: int
) -> tuple[list[str], list[list[object]]]:
    """Returns the table of a group."""
    rows: list[list[object]] = []
    chosen = range(group.first, group.first + seeds)
    for name in group.problems:
        for position, mark in enumerate(MARKS):
            result = {who: [parts[f"{name}/{who}/{seed}"][position] for seed in chosen] for who in searches}
            row: list[object] = [name, mark, *(float(np.median(result[who])) for who in searches)]
            for who in searches[1:]:
                word, p = verdict(result["Atoll"], result[who])
                row.append(f"{word} (p {p:.2g})")
            rows.append(row)
    columns = ["problem, dimensions", "evaluations", *(f"{who}, median" for who in searches)]
    return [*columns, *(f"Atoll against {who}" for who in searches[1:])], rows


def summed(rows: Sequence[Sequence[object]], peers: int, problems: int) -> str:
    """Describes on how many problems Atoll is better than all others, and where it is worse than any."""
    sentences = []
    for mark in MARKS:
        verdicts = [[str(cell) for cell in row[-peers:]] for row in rows if row[1] == mark]
        better = sum(all(cell.startswith("better") for cell in row) for row in verdicts)
        worse = sum(any(cell.startswith("worse") for cell in row) for row in verdicts)
        sentences.append(f"at {mark} evaluations better than all on {better} of {problems}, worse than any on {worse}")
    return "; ".join(sentences) + "."


def costs(searches: Mapping[str, Callable[[Problem, int], list[float]]]) -> str:
    """Describes the CPU time per proposal, for Optuna without its imports."""
    sentences = []
    for name in ("camel, 2", "Styblinski-Tang, 6", "cigar, 15"):
        problem, since = DEVELOPMENT[name], time.process_time()
        ours(problem, 0)
        description = [f"{1000 * (time.process_time() - since) / MARKS[-1]:.1f} ms"]
        description += [f"TPE {_peer_ms(problem):.1f} ms"] if "TPE" in searches else []
        sentences.append(f"{name}: {', '.join(description)}")
    return f"CPU time of a proposal, mean of {MARKS[-1]}: {'; '.join(sentences)}."


def _peer_ms(problem: Problem) -> float:
    """Returns the CPU milliseconds per proposal of Optuna without its startup."""
    used = []
    for budget in (1, MARKS[-1]):
        since = resource.getrusage(resource.RUSAGE_CHILDREN)
        ask_optuna(problem, 0, budget)
        until = resource.getrusage(resource.RUSAGE_CHILDREN)
        used.append(until.ru_utime + until.ru_stime - since.ru_utime - since.ru_stime)
    return 1000 * (used[1] - used[0]) / (MARKS[-1] - 1)


if __name__ == "__main__":
    main()

"""The tuner beside Optuna's TPE and random search at equal evaluations, all from the same start.

    scripts/bench tuner                # 20 seeds; some minutes
    scripts/bench tuner --no-peers     # without Optuna: random search alone is beside it

Four standard functions and two heuristics with constants. Lower is better everywhere; differences are tested by the
paired Wilcoxon test over the seeds. What is done is kept in `results/tuner.parts.json` until `--fresh`.
"""

import argparse
import json
import math
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from atoll.mutation.tuner import Tunable, minimise
from bench import outcome
from examples.binpacking import task

PEERS = True
PARTS = outcome.RESULTS_DIR / "tuner.parts.json"
PEER_PYTHON = Path(".venv-peers/bin/python")
MARKS = (50, 200)


class Problem(NamedTuple):
    """What is to be minimised."""

    fn: Callable[..., float]
    space: Sequence[Tunable]


def branin(x: float, y: float) -> float:
    bent = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return bent**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


_STEEP = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_TOPS = 1e-4 * np.array([
    [1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991], [2348, 1451, 3522, 2883, 3047, 6650],
    [4047, 8828, 8732, 5743, 1091, 381],
])  # fmt: skip


def hartmann(*values: float) -> float:
    return -float(np.array([1, 1.2, 3, 3.2]) @ np.exp(-(_STEEP * (np.array(values) - _TOPS) ** 2).sum(1)))


def rosenbrock(*values: float) -> float:
    x = np.array(values)
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def ackley(*values: float) -> float:
    """Returns Ackley's function, moved so that its least value lies neither at the start nor in the middle."""
    x = np.array(values) - 3.3
    hills = math.exp(float(np.cos(2 * np.pi * x).mean()))
    return -20 * math.exp(-0.2 * math.sqrt(float((x**2).mean()))) - hills + 20 + math.e


_LISTS = task.uniform(seed=5, count=6, num_items=250)[0]


def packing(tight: float, wide: float, level: float, slope: float, power: float) -> float:
    """Returns the excess of a packing rule: tight bins first, then those that stay wide, then the rest."""

    def rule(item: float, bins: Any) -> Any:
        gap = bins - item
        return np.where(gap <= tight, -(gap**power), np.where(gap >= wide, level - slope * gap, -100 - gap))

    return -task.evaluate(rule, _LISTS)


def _jobs(seed: int, count: int = 60) -> Any:
    rng = np.random.default_rng(seed)
    times, weights = rng.integers(1, 100, count).astype(float), rng.integers(1, 10, count).astype(float)
    return times, weights, rng.uniform(0.1, 0.9, count) * times.sum()


_SHOPS = [_jobs(seed) for seed in range(4)]


def dispatching(patience: float, urgency: float, weight_power: float, time_power: float) -> float:
    """Returns the weighted tardiness of one machine that takes the job of the highest index next (after ATC)."""
    total = 0.0
    for times, weights, due in _SHOPS:
        left, now, mean = np.ones(len(times), dtype=bool), 0.0, times.mean()
        for _ in range(len(times)):
            slack = np.maximum(due - times - now, 0.0)
            index = weights**weight_power / times**time_power * np.exp(-urgency * slack / (patience * mean))
            job = int(np.argmax(np.where(left, index, -1.0)))
            left[job] = False
            now += times[job]
            total += weights[job] * max(now - due[job], 0.0)
    return total


def _cube(count: int, start: float, low: float, high: float) -> Sequence[Tunable]:
    return [Tunable(f"x{place}", start, low, high) for place in range(count)]


PROBLEMS: Mapping[str, Problem] = {
    "Branin, 2": Problem(branin, [Tunable("x", 2.5, -5, 10), Tunable("y", 7.5, 0, 15)]),
    "Hartmann, 6": Problem(hartmann, _cube(6, 0.5, 0, 1)),
    "Rosenbrock, 10": Problem(rosenbrock, _cube(10, -1.2, -2.5, 2.5)),
    "Ackley, 20": Problem(ackley, _cube(20, 0.0, -10, 10)),
    "packing rule, 5": Problem(packing, [
        Tunable("tight", 2.0, 0, 40), Tunable("wide", 50.0, 10, 100), Tunable("level", 0.0, -50, 50),
        Tunable("slope", 1.0, -2, 2), Tunable("power", 1.0, 0.1, 3),
    ]),
    "dispatching rule, 4": Problem(dispatching, [
        Tunable("patience", 1.0, 0.1, 10), Tunable("urgency", 1.0, 0, 5), Tunable("weight_power", 1.0, 0, 3),
        Tunable("time_power", 1.0, 0, 3),
    ]),
}  # fmt: skip


def ours(problem: Problem, seed: int) -> list[float]:
    """Returns the best so far after each evaluation."""
    seen: list[float] = []

    def watched(*values: float) -> float:
        seen.append(problem.fn(*values))
        return seen[-1]

    minimise(watched, problem.space, budget=MARKS[-1], seed=seed)
    return [float(each) for each in np.minimum.accumulate(seen)]


def at_random(problem: Problem, seed: int) -> list[float]:
    rng = np.random.default_rng(seed)
    points = [[each.start for each in problem.space]]
    points += [
        [each.low + rng.random() * (each.high - each.low) for each in problem.space] for _ in range(MARKS[-1] - 1)
    ]
    return [float(each) for each in np.minimum.accumulate([problem.fn(*point) for point in points])]


def tpe(problem: Problem, seed: int) -> list[float]:
    """Asks Optuna in its own environment, point by point, and tells it what we find: one function for all."""
    command = [str(PEER_PYTHON), "-c", _PEER, json.dumps([[each.low, each.high, each.start] for each in problem.space])]
    with subprocess.Popen(
        [*command, str(seed), str(MARKS[-1])], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as peer:
        assert peer.stdin is not None
        assert peer.stdout is not None
        seen: list[float] = []
        for line in peer.stdout:
            seen.append(problem.fn(*json.loads(line)))
            peer.stdin.write(f"{seen[-1]!r}\n")
            peer.stdin.flush()
    if len(seen) != MARKS[-1]:
        sys.exit(f"Optuna ended after {len(seen)} evaluations: see its words above.")
    return [float(each) for each in np.minimum.accumulate(seen)]


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
    """Says whether the first is better, worse or neither over the seeds, with the p-value of the paired test."""
    differences = np.array(one) - np.array(other)
    if not differences.any():
        return "equal", 1.0
    p = float(stats.wilcoxon(differences).pvalue)
    return ("better" if np.median(differences) < 0 else "worse") if p < 0.05 else "equal", p


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--no-peers", action="store_true", help="without Optuna")
    parser.add_argument("--fresh", action="store_true", help="forget what is done")
    given = parser.parse_args()
    searches = {"Atoll": ours, "random": at_random} | ({} if given.no_peers else {"TPE": tpe})
    parts: dict[str, list[float]] = json.loads(PARTS.read_text()) if PARTS.exists() and not given.fresh else {}
    for name, problem in PROBLEMS.items():
        for who, search in searches.items():
            for seed in range(given.seeds):
                if f"{name}/{who}/{seed}" not in parts:
                    curve = search(problem, seed)
                    parts[f"{name}/{who}/{seed}"] = [curve[min(mark, len(curve)) - 1] for mark in MARKS]
            PARTS.write_text(json.dumps(parts) + "\n")
            print(name, who, flush=True)
    report(parts, list(searches), given.seeds)


def report(parts: Mapping[str, Sequence[float]], searches: Sequence[str], seeds: int) -> None:
    rows: list[list[object]] = []
    for name in PROBLEMS:
        for place, mark in enumerate(MARKS):
            found = {who: [parts[f"{name}/{who}/{seed}"][place] for seed in range(seeds)] for who in searches}
            row: list[object] = [name, mark, *(float(np.median(found[who])) for who in searches)]
            for who in searches[1:]:
                said, p = verdict(found["Atoll"], found[who])
                row.append(f"{said} (p {p:.2g})")
            rows.append(row)
    columns = ["problem, dimensions", "evaluations", *(f"{who}, median" for who in searches)]
    columns += [f"Atoll against {who}" for who in searches[1:]]
    notes = [f"{seeds} seeds; the start is the first evaluation of every search; paired Wilcoxon test, 0.05."]
    outcome.keep("tuner", {"Lowest value found": (columns, rows)}, notes)


if __name__ == "__main__":
    main()

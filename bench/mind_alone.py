"""Mind Evolution without an LLM: number of solved problems and of evaluated plans.

The baselines get the same problems and as many plans: best of N, which draws every plan at random, and sequential
revision, ten conversations that each change their best plan. All stop at the first plan that satisfies the evaluator.
Mind Evolution also stops after a long time without improvement.

Traces are recombined and mutated with the default settings. The problems are the public Natural Plan samples of --data;
without it, generated ones of the same shape. Another process compares each plan with the solution to decide whether the
problem is solved. A trip whose parsed constraints contradict its solution counts as unsolved.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll import mind
from atoll.mind.tasks import grader, load
from bench import outcome
from bench.mind import TASKS, problems_of

LEAST = 95.0  # percent
METHODS: Mapping[str, str] = {"Mind Evolution": "mind", "best of N": "best_of_n", "sequential": "sequential"}
COLUMNS = (
    "task", "seed", "method", f"solved (Mind Evolution goal >= {LEAST:g} %)", "evaluated plans: mean", "median", "most",
    "unsolved", "CPU s",
)  # fmt: skip


def contest(task: str, path: Path, seed: int, method: str) -> Sequence[object]:
    """Searches all problems of a file with one method. Returns its row."""
    problems, since = load.load_problems(path, seed), time.process_time()
    result = mind.MindEvolutionEngine(problems, options={"method": METHODS[method]}, seed=seed).run()
    seconds = round(time.process_time() - since, 1)
    grades = grader.grade_in_subprocess(path, result.plans)
    solved = sum(bool(grade) for grade in grades.values())
    share = 100 * solved / len(problems)
    verdict = "" if METHODS[method] != "mind" else " MET" if share >= LEAST else " MISSED"
    rows: Any = result.stats["instances"]
    evaluated = [row["evaluations"] for row in rows]
    effort = [round(statistics.fmean(evaluated), 1), statistics.median(evaluated), max(evaluated)]
    unsolved = [id.rpartition("_")[2] for id, is_good in grades.items() if not is_good]
    message = f"{solved} of {len(problems)}, {share:.1f} %{verdict}"
    return [task, seed, method, message, *effort, listed(unsolved), seconds]


def listed(unsolved: Sequence[str], most: int = 5) -> str:
    """Lists the unsolved problems, at most the first few."""
    if len(unsolved) > most:
        return f"{', '.join(unsolved[:most])} and {len(unsolved) - most} more"
    return ", ".join(unsolved) or "none"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="folder with the public samples")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    args = parser.parse_args()
    rows = list[Sequence[object]]()
    with tempfile.TemporaryDirectory() as temporary:
        for seed in args.seeds:
            for task in TASKS:
                path = problems_of(task, args.data, Path(temporary))
                for method in args.methods:
                    rows.append(contest(task, path, seed, method))
                    outcome.keep("mind_alone", {"Without a model": (COLUMNS, rows)})


if __name__ == "__main__":
    main()

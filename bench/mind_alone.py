"""Mind Evolution without an LLM: number of solved problems and of evaluated plans.

The baselines get the same problems and as many plans: best of N, which draws every plan at random, and sequential
revision, ten conversations that each change their best plan. All stop at the first plan that satisfies the evaluator.
Mind Evolution also stops after a long time without improvement.

Traces are recombined and mutated with the default settings. The problems are the public Natural Plan samples of --data;
without it, generated ones of the same shape. Another process decides whether a problem is solved. Its plan must break
no constraint of the text and, on a day of meetings, meet as many friends as the solution. The second table counts the
solutions of the data that the evaluators accept.
"""

import argparse
import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from atoll import mind
from atoll.mind.tasks import load
from bench import outcome
from bench.mind import TASKS as LLM_TASKS
from bench.mind import problems_of

LEAST = 95.0  # percent
METHODS: Mapping[str, str] = {"Mind Evolution": "mind", "best of N": "best_of_n", "sequential": "sequential"}
TASKS = (*LLM_TASKS, "calendar")
COLUMNS = (
    "task", "seed", "method", f"solved (Mind Evolution goal >= {LEAST:g} %)", "evaluated plans: mean", "median", "most",
    "unsolved", "CPU s",
)  # fmt: skip


def contest(task: str, path: Path, seed: int, method: str) -> Sequence[object]:
    """Searches all problems of a file with one method. Returns its row."""
    problems, since = load.load_problems(path, seed), time.process_time()
    result = mind.MindEvolutionEngine(problems, options={"method": METHODS[method]}, seed=seed).run()
    seconds = round(time.process_time() - since, 1)
    grades = load.grade_in_subprocess(path, result.plans)
    solved = sum(bool(grade) for grade in grades.values())
    share = 100 * solved / len(problems)
    verdict = "" if METHODS[method] != "mind" else " MET" if share >= LEAST else " MISSED"
    rows: Any = result.stats["instances"]
    evaluated = [row["evaluations"] for row in rows]
    effort = [round(statistics.fmean(evaluated), 1), statistics.median(evaluated), max(evaluated)]
    unsolved = [id.rpartition("_")[2] for id, is_good in grades.items() if not is_good]
    message = f"{solved} of {len(problems)}, {share:.1f} %{verdict}"
    return [task, seed, method, message, *effort, listed(unsolved), seconds]


def accept(task: str, path: Path) -> Sequence[object]:
    """Counts the solutions of the data that the evaluator accepts. Returns a row."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    plans = [
        "\n".join(row["golden_plan"]) if isinstance(row["golden_plan"], list) else row["golden_plan"] for row in rows
    ]
    accepted = [not load.parse_row(row).evaluate(plan).errors for row, plan in zip(rows, plans, strict=True)]
    return [task, f"{sum(accepted)} of {len(rows)}, {100 * statistics.fmean(accepted):.0f} %"]


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
    rows, accepted = list[Sequence[object]](), list[Sequence[object]]()
    with tempfile.TemporaryDirectory() as temporary:
        paths = {task: problems_of(task, args.data, Path(temporary)) for task in TASKS}
        accepted += [accept(task, path) for task, path in paths.items()]
        for seed, task, method in itertools.product(args.seeds, TASKS, args.methods):
            rows.append(contest(task, paths[task], seed, method))
            tables: outcome.Tables = {
                "Without an LLM": (COLUMNS, rows),
                "Solutions": (("task", "solutions that the evaluator accepts"), accepted),
            }
            outcome.keep("mind_alone", tables)


if __name__ == "__main__":
    main()

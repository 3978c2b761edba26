"""Mind Evolution without a model: how many problems are solved, and how many plans are judged for it.

Traces are recombined and changed with the settings that a run has by default. The problems are the public Natural Plan
samples, given by --data; without it, made-up ones of the same shape. A problem counts as solved by comparison with its
solution, in another process than the search; a trip whose constraints, as the data's own parse has them, contradict its
solution cannot be solved, and counts as unsolved.
"""

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from atoll import mind
from atoll.mind.tasks import data, grading
from bench import outcome
from bench.mind import TASKS, problems_of

LEAST = 95.0  # per cent


def contest(task: str, path: Path, seed: int) -> list[object]:
    problems, since = data.read(path, seed), time.process_time()
    found = mind.MindEvolutionEngine(problems, seed=seed).run()
    grades = grading.graded(path, found.plans)
    solved = sum(bool(each) for each in grades.values())
    rows: Any = found.facts["instances"]
    judged = [row["evaluations"] for row in rows]
    unsolved = ", ".join(id.rpartition("_")[2] for id, is_good in grades.items() if not is_good) or "none"
    share = 100 * solved / len(problems)
    verdict = "MET" if share >= LEAST else "MISSED"
    effort = [statistics.fmean(judged), statistics.median(judged), max(judged)]
    seconds = time.process_time() - since
    return [task, seed, f"{solved} of {len(problems)}", f"{share:.1f} {verdict}", *effort, unsolved, round(seconds, 1)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, help="a folder with the public samples")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0])
    given = parser.parse_args()
    columns = ["task", "seed", "solved", f"% (wanted >= {LEAST:g})", "plans judged: mean", "median", "most", "unsolved"]
    rows = list[list[object]]()
    with tempfile.TemporaryDirectory() as made:
        for seed in given.seeds:
            for task in TASKS:
                rows.append(contest(task, problems_of(task, given.data, Path(made)), seed))
                outcome.keep("mind_alone", {"Without a model": ([*columns, "CPU s"], rows)})


if __name__ == "__main__":
    main()

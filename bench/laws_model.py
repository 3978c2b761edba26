"""Laws with a real LLM: beside the search, without an LLM in the same CPU time, and LLM-SR's own preset.

    scripts/bench laws_model --data DIR --llm openai:local@http://127.0.0.1:8100/v1 --jobs 2

The problems are LLM-SR's four sets and eight laws of `DATA/make_laws.py`: every third of its list, from the first one
on. This choice was made before any run. The LLM gets a description of each; descriptions name quantities, not formulas.
Every run is an `atoll run` that sees only `train.csv` until its search has ended. The run without an LLM has the CPU
seconds that the run with an LLM used. Finished runs are saved as they come and not repeated until `--fresh`.
"""

import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from bench import laws, outcome

PARTS = outcome.RESULTS_DIR / "laws_model.parts.json"
WITH, WITHOUT, LLMSR = "with an LLM", "without", "LLM-SR's preset"
DESCRIPTIONS = {
    "oscillator1": "Acceleration a of a damped nonlinear oscillator. x is its position, v its velocity.",
    "oscillator2": "Acceleration a of a driven, damped nonlinear oscillator. t is time, x position, v velocity.",
    "bactgrow": (
        "Growth rate db of E. coli bacteria. b is the population density, s the concentration of the substrate, temp "
        "the temperature in degrees Celsius, pH the acidity."
    ),
    "stressstrain": "Stress in an aluminium rod that is pulled. strain is its elongation, temp its temperature.",
}
NUM_LAWS, EVERY = 8, 3


class Run(NamedTuple):
    """Result of one run: NMSE by split, size, CPU and wall seconds, number of LLM calls, and the law."""

    method: str
    problem: str
    seed: int
    nmse: Mapping[str, float | None]
    size: int
    cpu: float
    seconds: float
    calls: int
    law: str

    def get_error(self, split: str) -> float:
        """Returns the NMSE; a large number if it has none."""
        error = self.nmse.get(split)
        return laws.WORST_ERROR if error is None or not math.isfinite(error) else min(error, laws.WORST_ERROR)


def list_problems(data: Path, folder: Path) -> list[tuple[Path, str]]:
    """Returns the folder and the description of each problem."""
    maker = laws.load_maker(data)
    names = list(maker.LAWS)[::EVERY][:NUM_LAWS]
    for name in names:
        maker.write(name, folder / name)
    described = [(data.parent / "llmsr" / name, text) for name, text in DESCRIPTIONS.items()]
    return described + [(folder / name, describe(maker.LAWS[name].source)) for name in names]


def describe(source: str) -> str:
    """Returns the description of a law from its source, without the number in its list."""
    head, _, rest = source.partition(" ")
    return f"The law is known as: {rest if any(map(str.isdigit, head)) else source}."


def write_task(folder: Path, data: Path, description: str) -> None:
    """Writes the task of one problem."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "atoll.toml").write_text(
        f'system = "llmsr"\n[task]\ndata = {json.dumps(str(data.resolve()))}\ncomment = {json.dumps(description)}\n'
        "[llmsr]\nnum_islands = 1\n"
    )


def run_method(
    method: str, problem: tuple[Path, str], seed: int, seconds: float, options: argparse.Namespace, folder: Path
) -> Run | None:
    """Runs one method by the command line; None if it failed. The seconds are for the run without an LLM."""
    name = problem[0].name
    task = folder / f"{method}-{name}-{seed}".replace(" ", "_").replace("'", "")
    write_task(task, *problem)
    command = [sys.executable, "-m", "atoll", "run", str(task), "--seed", str(seed), "--json", "--quiet"]
    command += ["--store", str(task / "store.db")]
    if method == WITHOUT:
        command += ["--budget", f"{seconds:.0f}s", "--workers", "1"]
    else:
        command += ["--llm", options.llm, "--budget", f"{options.calls}calls", "--workers", str(options.workers)]
        command += ["--set", f"llm.max_tokens={options.tokens}"]
    if method == LLMSR:
        command += ["--set", "llmsr.preset=llmsr", "--set", "llmsr.num_islands=10"]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with (task / "out").open("w") as output, (task / "err").open("w") as messages:
        process = subprocess.Popen(command, stdout=output, stderr=messages, env={**os.environ, **threads})
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    lines = (task / "out").read_text().splitlines()
    if process.returncode or not lines:
        print(f"{method} on {name} failed: {(task / 'err').read_text()[-300:]}", file=sys.stderr)
        return None
    data: dict[str, Any] = json.loads(lines[-1])
    cpu = usage.ru_utime + usage.ru_stime
    size, calls, law = data.get("size", 0), data.get("calls", 0), str(data.get("law", ""))
    return Run(method, name, seed, data.get("nmse", {}), size, cpu, data.get("seconds", 0.0), calls, law)


def run_problem(
    problem: tuple[Path, str], seed: int, known: list[Run], save: Any, options: argparse.Namespace, folder: Path
) -> None:
    """Runs all methods on one problem that are not saved yet. The run without an LLM comes after the one with it."""
    done = {run.method: run for run in known if (run.problem, run.seed) == (problem[0].name, seed)}
    for method in (WITH, WITHOUT, LLMSR):
        seconds = done[WITH].cpu if WITH in done else 0.0
        if method in done or (method == WITHOUT and not seconds):
            continue
        result = run_method(method, problem, seed, max(seconds, 1.0), options, folder)
        if result is not None:
            done[method] = result
            save(result)


def make_tables(runs: Sequence[Run]) -> outcome.Tables:
    """Returns the medians over the seeds for every problem, and a count of wins."""
    methods = (WITH, WITHOUT, LLMSR)
    problems = list(dict.fromkeys(run.problem for run in runs))

    def median(method: str, problem: str, split: str) -> float:
        errors = [run.get_error(split) for run in runs if (run.method, run.problem) == (method, problem)]
        return statistics.median(errors) if errors else math.nan

    rows: list[list[object]] = []
    for problem in problems:
        errors = [median(method, problem, split) for method in methods for split in laws.SPLITS]
        cpu = [
            statistics.median([r.cpu for r in runs if (r.method, r.problem) == (m, problem)] or [0]) for m in methods
        ]
        rows.append([problem, *errors, *cpu])
    wins: list[list[object]] = []
    for split in laws.SPLITS:
        pairs = [(median(WITH, problem, split), median(WITHOUT, problem, split)) for problem in problems]
        better = sum(own < other / 3 and other > laws.EXACT_ERROR for own, other in pairs)
        worse = sum(own > 3 * other and own > laws.EXACT_ERROR for own, other in pairs)
        wins.append([split, better, len(pairs) - better - worse, worse])
    titles = [f"{method}: {split}" for method in methods for split in ("inside", "outside")]
    return {
        "With an LLM, compared with the search alone in the same CPU time: problems": (
            ["rows", "better by 3 times", "equal", "worse by 3 times"],
            wins,
        ),
        "NMSE, medians over the seeds": (["problem", *titles, *(f"{method}: CPU s" for method in methods)], rows),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder laws/ with make_laws.py, beside llmsr/")
    parser.add_argument("--llm", required=True, help="openai:NAME@http://HOST:PORT/v1")
    parser.add_argument("--calls", type=int, default=200, help="LLM calls of a run")
    parser.add_argument("--tokens", type=int, default=600, help="longest response")
    parser.add_argument("--workers", type=int, default=4, help="LLM calls of a run at the same time")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time; at most one per core")
    parser.add_argument("--problems", nargs="*", help="names of problems; all by default")
    parser.add_argument("--fresh", action="store_true", help="repeat finished runs")
    options = parser.parse_args()
    is_known = PARTS.is_file() and not options.fresh
    runs = [Run(**row) for row in json.loads(PARTS.read_text())] if is_known else []
    lock = threading.Lock()

    def save(run: Run) -> None:
        with lock:
            runs.append(run)
            PARTS.parent.mkdir(parents=True, exist_ok=True)
            PARTS.write_text(json.dumps([part._asdict() for part in runs]) + "\n")
            errors = "  ".join(f"{split} {run.get_error(split):9.3g}" for split in laws.SPLITS)
            print(f"{run.method:16} {run.problem:18} {run.seed}  {errors}  {run.cpu:6.1f} s", file=sys.stderr)

    folder = Path(tempfile.mkdtemp(prefix="laws-model-"))
    try:
        problems = list_problems(options.data, folder / "tables")
        chosen = [item for item in problems if not options.problems or item[0].name in options.problems]
        with ThreadPoolExecutor(options.jobs) as pool:
            futures = [
                pool.submit(run_problem, item, seed, list(runs), save, options, folder)
                for seed in range(options.seeds)
                for item in chosen
            ]
            for future in futures:
                future.result()
    finally:
        shutil.rmtree(folder)
    notes = ["### Laws", "\n".join(f"- {run.problem}, {run.method}: `{' '.join(run.law.split())}`" for run in runs)]
    outcome.keep("laws_model", make_tables(runs), notes, runs=[run._asdict() for run in runs])


if __name__ == "__main__":
    main()

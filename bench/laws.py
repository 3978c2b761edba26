"""Laws from tables without an LLM: known laws of several lists and LLM-SR's four sets, beside gplearn and pyoperon.

The laws of `DATA/make_laws.py` and `bench/laws_list.py` become tables of 1,000 rows. Every run is a process on one
core that sees only `train.csv` and has the same seconds, model selection included. A law without noise is exact if its
NMSE is below 1e-10 inside and outside of the training range. `--prototype FILE` adds a script with the arguments of
`laws_prototype.py`. Finished runs stay in `results/laws.parts.json` until `--fresh`.
"""

import argparse
import ast
import importlib.util
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import Any, NamedTuple

from bench import laws_list, outcome

PEERS = True
METHODS = ("ours", "pyoperon", "gplearn")
SPLITS = ("test_id", "test_ood")
EXACT_ERROR = 1e-10
WORST_ERROR = 1e3
PARTS = outcome.RESULTS_DIR / "laws.parts.json"
PROTOTYPE = "prototype"


class Run(NamedTuple):
    """Result of one method on one law: NMSE by split, number of nodes, CPU seconds, and the model as text.

    Attributes:
        has_exact: Whether the front has an exact law, chosen or not.
    """

    method: str
    law: str
    seed: int
    seconds: float
    nmse: Mapping[str, float]
    size: int
    cpu: float
    model: str
    has_exact: bool = False

    def get_error(self, split: str) -> float:
        """Returns the NMSE; a large number if it is not finite."""
        error = self.nmse.get(split, math.nan)
        return min(error, WORST_ERROR) if math.isfinite(error) else WORST_ERROR

    @property
    def is_exact(self) -> bool:
        return all(self.get_error(split) < EXACT_ERROR for split in SPLITS)


class Problem(NamedTuple):
    """Folder with the three tables of a law, its noise, and the number of nodes of its formula (0 if unknown)."""

    folder: Path
    noise: float
    size: int


def write_problems(data: Path, folder: Path) -> list[Problem]:
    """Writes the tables of all laws. LLM-SR's sets come first."""
    maker = load_maker(data)
    maker.LAWS.update({name: maker.Law("", law.formula, law.ranges, law.noise) for name, law in laws_list.LAWS.items()})
    problems = [
        Problem(path, 0.0, 0) for path in sorted((data.parent / "llmsr").glob("*")) if (path / "train.csv").is_file()
    ]
    for name, law in maker.LAWS.items():
        maker.write(name, folder / name)
        problems.append(Problem(folder / name, law.noise, count_nodes(law.formula)))
    return problems


def load_maker(data: Path) -> Any:
    """Returns the module `make_laws.py` of a folder."""
    spec = importlib.util.spec_from_file_location("make_laws", data / "make_laws.py")
    if not (data / "make_laws.py").is_file() or spec is None or spec.loader is None:
        sys.exit(f"{data}/make_laws.py does not exist. Set --data to the folder that holds it, beside llmsr/.")
    maker: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(maker)
    return maker


def count_nodes(formula: str) -> int:
    """Returns the number of operators, functions, variables and constants of a formula."""

    def count(node: ast.expr) -> int:
        match node:
            case ast.BinOp():
                return 1 + count(node.left) + count(node.right)
            case ast.UnaryOp():
                return count(node.operand) + (not isinstance(node.operand, ast.Constant))
            case ast.Call():
                return 1 + sum(map(count, node.args))
        return 1

    return count(ast.parse(formula, mode="eval").body)


def run_method(method: str, problem: Problem, seed: int, options: argparse.Namespace) -> Run:
    """Runs one method in a process."""
    if method == PROTOTYPE:
        command = [sys.executable, str(options.prototype), str(problem.folder), str(options.seconds), str(seed)]
    else:
        python = sys.executable if method == "ours" else options.peers
        script = Path(__file__).with_name("sr_run.py")
        command = [python, str(script), method, str(problem.folder), str(seed), str(options.seconds)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    result = subprocess.run(
        command,
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
        timeout=20 * options.seconds + 300,
    )
    name = problem.folder.name
    if result.returncode:
        print(f"{method} on {name}, seed {seed}, failed: {result.stderr[-300:]}", file=sys.stderr)
        return Run(method, name, seed, options.seconds, {}, 0, 0.0, "")
    data = json.loads(result.stdout.splitlines()[-1])
    if method == PROTOTYPE:
        nmse = {"train": data["train"], "test_id": data["id"], "test_ood": data["ood"]}
        return Run(method, name, seed, options.seconds, nmse, data["size"], data["cpu"], data["text"])
    return Run(
        method,
        name,
        seed,
        options.seconds,
        data["nmse"],
        data["size"],
        data["cpu"],
        data["model"],
        data.get("has_exact", False),
    )


def run_all(problems: Sequence[Problem], methods: Sequence[str], options: argparse.Namespace) -> list[Run]:
    """Returns all runs. Finished ones are read from `PARTS`."""
    runs = [] if options.fresh or not PARTS.is_file() else [Run(**row) for row in json.loads(PARTS.read_text())]
    runs = [run for run in runs if run.seconds == options.seconds]
    known = {(run.method, run.law, run.seed) for run in runs}
    tasks = [
        (method, problem, seed)
        for seed in range(options.seeds)
        for problem in problems
        for method in methods
        if (method, problem.folder.name, seed) not in known
    ]
    with ThreadPoolExecutor(options.jobs) as pool:
        futures = [pool.submit(run_method, *task, options) for task in tasks]
        for future in as_completed(futures):
            run = future.result()
            runs.append(run)
            PARTS.write_text(json.dumps([part._asdict() for part in runs]) + "\n")
            errors = "  ".join(f"{split} {run.get_error(split):9.3g}" for split in SPLITS)
            print(f"{run.method:10} {run.law:18} {run.seed}  {errors}  {run.size:4}", file=sys.stderr)
    names = {problem.folder.name for problem in problems}
    return [run for run in runs if run.law in names and run.method in methods and run.seed < options.seeds]


def make_tables(runs: Sequence[Run], problems: Sequence[Problem]) -> outcome.Tables:
    """Returns a summary of every method, and the medians of every law."""
    methods = list(dict.fromkeys(run.method for run in runs))
    by_key: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        by_key.setdefault((run.method, run.law), []).append(run)
    listed = [problem for problem in problems if problem.size]
    exact_laws = [problem for problem in listed if not problem.noise]
    noisy_laws = [problem for problem in listed if problem.noise]
    summary: list[list[object]] = []
    for method in methods:
        exact = [run.is_exact for problem in exact_laws for run in by_key.get((method, problem.folder.name), [])]
        ratios = [
            run.size / problem.size
            for problem in listed
            for run in by_key.get((method, problem.folder.name), [])
            if run.size
        ]
        behind = [
            _median(by_key, method, problem, "test_ood")
            / max(min(_median(by_key, each, problem, "test_ood") for each in methods), 1e-32)
            for problem in noisy_laws
        ]
        summary.append(
            [
                method,
                f"{sum(exact)} of {len(exact)}",
                _count_missed(by_key, method, exact_laws),
                _count_wins(by_key, method, "ours", listed, "test_id"),
                _count_wins(by_key, method, "ours", listed, "test_ood"),
                statistics.median(behind) if behind else "",
                statistics.median(ratios) if ratios else "",
            ]
        )
    rows = [
        [problem.folder.name, problem.noise or "", *_describe(by_key, methods, problem), problem.size or ""]
        for problem in problems
    ]
    titles = [f"{method}: {column}" for method in methods for column in ("exact", "inside", "outside", "size")]
    return {
        "Summary": (
            [
                "method",
                "exact, without noise",
                "exact law in the front, another one chosen",
                "laws where Atoll has the smaller error inside",
                "outside",
                "noisy laws: error outside by the best method's, median",
                "size by the formula's, median",
            ],
            summary,
        ),
        "Medians over the seeds: NMSE inside and outside of the training range, number of nodes": (
            ["law", "noise", *titles, "formula's size"],
            rows,
        ),
    }


def _count_missed(by_key: Mapping[tuple[str, str], Sequence[Run]], method: str, problems: Sequence[Problem]) -> object:
    """Returns in how many runs the front has an exact law that was not chosen; only Atoll reports its front."""
    runs = [run for problem in problems for run in by_key.get((method, problem.folder.name), [])]
    return sum(run.has_exact and not run.is_exact for run in runs) if method == "ours" else ""


def _median(by_key: Mapping[tuple[str, str], Sequence[Run]], method: str, problem: Problem, split: str) -> float:
    runs = by_key.get((method, problem.folder.name), [])
    return statistics.median(run.get_error(split) for run in runs) if runs else WORST_ERROR


def _count_wins(
    by_key: Mapping[tuple[str, str], Sequence[Run]], method: str, ours: str, problems: Sequence[Problem], split: str
) -> str:
    """Returns in how many laws the other method is better; two exact laws are equal and count for Atoll."""
    if method == ours:
        return ""
    wins = 0
    for problem in problems:
        own, other = _median(by_key, ours, problem, split), _median(by_key, method, problem, split)
        wins += own < other or own < EXACT_ERROR
    return f"{wins} of {len(problems)}"


def _describe(
    by_key: Mapping[tuple[str, str], Sequence[Run]], methods: Sequence[str], problem: Problem
) -> list[object]:
    cells: list[object] = []
    for method in methods:
        runs = by_key.get((method, problem.folder.name), [])
        if not runs:
            cells += ["", "", "", ""]
            continue
        medians = [statistics.median(run.get_error(split) for run in runs) for split in SPLITS]
        sizes = statistics.median(run.size for run in runs)
        cells += [f"{sum(run.is_exact for run in runs)} of {len(runs)}", *medians, sizes]
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder laws/ with make_laws.py, beside llmsr/")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=30.0, help="seconds of every run")
    parser.add_argument("--jobs", type=int, default=1, help="runs at the same time; at most one per core")
    parser.add_argument("--methods", default=",".join(METHODS), help="separated by commas")
    parser.add_argument("--prototype", type=Path, help="script to compare with")
    parser.add_argument("--peers", default=".venv-peers/bin/python", help="Python with gplearn and pyoperon")
    parser.add_argument("--laws", nargs="*", help="names of laws; all by default")
    parser.add_argument("--fresh", action="store_true", help="repeat finished runs")
    options = parser.parse_args()
    methods = [*options.methods.split(","), *([PROTOTYPE] if options.prototype else [])]
    folder = Path(tempfile.mkdtemp(prefix="laws-"))
    try:
        problems = write_problems(options.data, folder)
        if options.laws:
            problems = [problem for problem in problems if problem.folder.name in options.laws]
        runs = run_all(problems, methods, options)
    finally:
        shutil.rmtree(folder)
    laws_text = [
        f"`{run.law}`, seed {run.seed}: `{run.model}`" for run in runs if run.method == "ours" and run.seed == 0
    ]
    notes = ["### Laws that Atoll chose", "\n".join(f"- {line}" for line in laws_text)]
    outcome.keep("laws", make_tables(runs, problems), notes, runs=[run._asdict() for run in runs])


if __name__ == "__main__":
    main()

"""Symbolic regression without an LLM on folders of CSV files: Atoll, baselines, gplearn and pyoperon on one core.

Every run is a separate process on one core that sees only `train.csv` and has the same wall time, model selection
included. Then its model is scored on the test files. pyoperon searches on all rows and on 1,000 rows, its better
setting on large data. Its model is the one of its front with the best training error, which is better for it than its
own choice. The baselines, best of N and sequential, differ from Atoll only in the parents: they use the CPU seconds
that Atoll used in total with the problem and seed, plus model selection. Finished runs are kept in
`results/sr.parts.json` until `--fresh`, so an interrupted benchmark continues. `sr.json` holds the runs of the tables.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench import baselines, outcome

PEERS = True
PYTHONS = {"ours": Path(sys.executable), "gplearn": Path(".venv-peers/bin/python")}
PLAIN = ("best of N", "sequential")
PLAIN_TITLE = "Baselines at equal CPU seconds: correct digits of a law (-log10 NMSE, at most 15), 95 %"
METHODS = ("ours", *PLAIN, "gplearn", "pyoperon", "pyoperon, 1000 rows")
NOT_EVERYWHERE = ("pyoperon", "pyoperon, 1000 rows")
SPLITS = ("test_id", "test_ood")
EXACT, WORST = 1e-15, 1e3
PARTS = outcome.RESULTS_DIR / "sr.parts.json"


class Run(NamedTuple):
    """One method on one problem with one seed.

    Attributes:
        nmse: Error by split; NaN if the model gives no finite value.
        cpu: CPU seconds of the process.
        tried: Models tried: laws fitted (Atoll), programs (gplearn), residual evaluations (pyoperon).
    """

    method: str
    problem: str
    seed: int
    seconds: float
    nmse: Mapping[str, float]
    size: int
    cpu: float
    tried: int
    model: str

    @property
    def is_exact(self) -> bool:
        return all(self.nmse[split] < EXACT for split in SPLITS)


def ask(method: str, problem: Path, seed: int, seconds: float, core: int, cpu: float | None = None) -> Run:
    """Runs one method in a separate process. `cpu` is the limit of a baseline in seconds."""
    python = PYTHONS["ours" if method in ("ours", *PLAIN) else "gplearn"]
    script = Path(__file__).with_name("sr_run.py")
    command = [str(python), str(script), method, str(problem), str(seed), str(cpu or seconds)]
    threads = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    result = subprocess.run(
        ["taskset", "-c", str(core), *command],
        env={**os.environ, **threads},
        capture_output=True,
        text=True,
        check=False,
        timeout=20 * seconds + 300,
    )
    if result.returncode:
        sys.exit(f"{method} on {problem.name}, seed {seed}, failed:\n{result.stderr[-2000:]}")
    outcome_data = json.loads(result.stdout.splitlines()[-1])
    measured = {name: outcome_data[name] for name in ("nmse", "size", "cpu", "tried", "model")}
    return Run(method, problem.name, seed, seconds, **measured)


def is_here(method: str) -> bool:
    """Returns whether a method is installed; pyoperon is not packaged for every machine."""
    if method not in NOT_EVERYWHERE:
        return True
    result = subprocess.run([PYTHONS["gplearn"], "-c", "import pyoperon"], capture_output=True, check=False)
    return not result.returncode


def contest(
    data: Path, methods: Sequence[str], seeds: int, seconds: float, core: int, plain_seeds: int, parts: list[Run]
) -> Iterator[Run]:
    """Yields all runs by seed, so that an interrupted benchmark has as many runs of every method.

    The runs in `parts` are done; the others are added to it.
    """
    known = {(run.method, run.problem, run.seed): run for run in parts if run.seconds == seconds}
    problems = sorted(path.parent for path in data.glob("*/train.csv"))
    if not problems:
        sys.exit(f"{data} holds no folder with train.csv.")
    for seed, problem, method in itertools.product(range(seeds), problems, methods):
        if method in PLAIN and seed >= plain_seeds:
            continue
        cpu = known["ours", problem.name, seed].cpu if method in PLAIN else None
        run = known.get((method, problem.name, seed)) or ask(method, problem, seed, seconds, core, cpu)
        if (method, problem.name, seed) not in known:
            known[method, problem.name, seed] = run
            parts.append(run)
            PARTS.write_text(json.dumps([part._asdict() for part in parts], indent=1) + "\n")
        print(f"{method:20} {problem.name:14} {seed}  {_format_errors(run.nmse)}  {run.cpu:5.1f} s", file=sys.stderr)
        yield run


def _format_errors(nmse: Mapping[str, float]) -> str:
    return "  ".join(f"{split} {error:9.3g}" for split, error in nmse.items())


def medians(runs: Sequence[Run]) -> outcome.Tables:
    """Returns a table of median errors over the seeds, and one of the work of each method."""
    errors: list[list[object]] = []
    work: list[list[object]] = []
    for method, problem in sorted({(run.method, run.problem) for run in runs}, key=lambda item: item[::-1]):
        own = [run for run in runs if (run.method, run.problem) == (method, problem)]
        middle = [statistics.median(_ordered(run.nmse[split]) for run in own) for split in ("train", *SPLITS)]
        unknown = sum(not math.isfinite(run.nmse[split]) for run in own for split in SPLITS)
        exact = sum(run.is_exact for run in own)
        errors.append([problem, method, len(own), *middle, unknown, f"{exact} of {len(own)}"])
        rates = statistics.median(run.tried / run.cpu for run in own)
        sizes, cpu = (statistics.median(item) for item in zip(*((run.size, run.cpu) for run in own), strict=True))
        work.append([problem, method, rates, cpu, sizes])
    columns = ["problem", "method", "seeds", "NMSE train", "NMSE ID", "NMSE OOD", "no number", "exact"]
    return {
        "NMSE, medians over the seeds": (columns, errors),
        "Work, medians": (["problem", "method", "tried per CPU second", "CPU seconds", "size"], work),
        **({PLAIN_TITLE: baselines.compared("problem", result)} if (result := plain_ways(runs)) else {}),
    }


def plain_ways(runs: Sequence[Run]) -> Mapping[str, baselines.Figures]:
    """Returns the results of Atoll and its baselines on the same seeds by problem and split; empty if none was run."""
    ways = [way for way in PLAIN if any(run.method == way for run in runs)]
    result: dict[str, baselines.Figures] = {}
    for problem, split in itertools.product(sorted({run.problem for run in runs}), SPLITS) if ways else ():
        figures = {way: _digits(runs, way, problem, split) for way in ways}
        ours = _digits(runs, "ours", problem, split)[: max(map(len, figures.values()))]
        result[f"{problem}, {split}"] = {baselines.EVOLUTION: ours, **figures}
    return result


def _digits(runs: Sequence[Run], method: str, problem: str, split: str) -> list[float]:
    """Returns -log10(NMSE) by seed, limited to `EXACT` because of rounding; NaN counts as the worst value."""
    own = sorted((run.seed, run.nmse[split]) for run in runs if (run.method, run.problem) == (method, problem))
    return [
        -math.log10(min(max(error, EXACT), WORST)) if math.isfinite(error) else -math.log10(WORST) for _, error in own
    ]


def _ordered(error: float) -> float:
    return error if math.isfinite(error) else math.inf  # the worst value


def verdicts(runs: Sequence[Run]) -> list[str]:
    """Describes for each peer on how many numbers Atoll is better or not worse."""
    sentences: list[str] = []
    problems = sorted({run.problem for run in runs})
    for peer in [method for method in METHODS[len(PLAIN) + 1 :] if any(run.method == method for run in runs)]:
        better = worse = 0
        for problem, split in itertools.product(problems, SPLITS):
            ours, theirs = (_median(runs, method, problem, split) for method in ("ours", peer))
            better, worse = better + (ours < theirs), worse + (ours > theirs)
        sentences.append(f"ours against {peer}: better on {better}, worse on {worse} of {2 * len(problems)} numbers")
    sentences += baselines.tally(result) if (result := plain_ways(runs)) else ()
    lost = sum(not math.isfinite(run.nmse[split]) for run in runs if run.method == "ours" for split in SPLITS)
    return [*sentences, f"numbers of Atoll that are not finite: {lost}"]


def _median(runs: Sequence[Run], method: str, problem: str, split: str) -> float:
    own = [run.nmse[split] for run in runs if (run.method, run.problem) == (method, problem)]
    return statistics.median(map(_ordered, own)) if own else math.inf


def keep(runs: Sequence[Run], absent: Sequence[str]) -> None:
    missing = [f"Not run, because it is not packaged for this machine: {name}." for name in absent]
    outcome.keep("sr", medians(runs), [*verdicts(runs), *missing], runs=[run._asdict() for run in runs])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="a folder of folders with train.csv and test files")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--methods", default=",".join(METHODS).replace(", ", " "), help="some of them, with commas")
    parser.add_argument("--core", type=int, default=0, help="the core that all runs are pinned to")
    parser.add_argument("--plain-seeds", type=int, help="seeds of the baselines, if fewer")
    parser.add_argument("--no-peers", action="store_true", help="only Atoll and the baselines")
    parser.add_argument("--fresh", action="store_true", help="run finished runs again")
    options = parser.parse_args()
    methods = (
        ["ours", *PLAIN]
        if options.no_peers
        else [part.replace("n 1000", "n, 1000") for part in options.methods.split(",")]
    )
    if "ours" not in methods and set(methods) & set(PLAIN):
        parser.error("best of N and sequential use the seconds of ours; also name ours")
    plain_seeds = options.seeds if options.plain_seeds is None else options.plain_seeds
    methods.sort(key=lambda item: item != "ours")
    absent = [item for item in methods if not is_here(item)]
    available = [item for item in methods if item not in absent]
    parts = [Run(**load) for load in json.loads(PARTS.read_text())] if PARTS.exists() and not options.fresh else []
    runs = contest(options.data, available, options.seeds, options.seconds, options.core, plain_seeds, parts)
    keep(list(runs), absent)


if __name__ == "__main__":
    main()

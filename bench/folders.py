"""Ten unmodified example folders of OpenEvolve, with a scripted LLM and without an LLM, and baselines.

    scripts/bench folders --folders DIR

DIR is the `examples` folder of an OpenEvolve checkout, which you fetch yourself. OpenEvolve's own evaluator in
.venv-peers also evaluates the initial and the best program of each folder several times, because some scores are noisy.
The baselines of each run (`atoll run --baselines`) have as many evaluations and calls: best of N, and with the LLM
sequential and the engine without an LLM. Finished folders are kept in `results/folders.parts.json` until `--fresh`.
"""

import argparse
import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from atoll.runs import baselines
from atoll.testing import server
from bench import outcome

PEERS = True
ROOT = Path(__file__).parent.parent
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
PARTS = outcome.RESULTS_DIR / "folders.parts.json"
LIMIT_SECONDS = 2400.0
TIMES = 3
NUMBER = r"(?<![\w.])\d+\.?\d*"
LIBRARIES = ("bs4", "soupsieve")  # imported by the folders but not by Atoll; copied from the peers' environment
FOLDERS = (
    "function_minimization",
    "circle_packing",
    "circle_packing_with_artifacts",
    "signal_processing",
    "k_module_problem",
    "web_scraper_optillm",
    "background_blur",
    "alphaevolve_math_problems/heilbronn_triangle",
    "alphaevolve_math_problems/hexagon_packing/11",
    "alphaevolve_math_problems/kissing_number",
)
# One evaluation takes up to 20 seconds, and an iteration of the tuner makes several.
SLOW: Mapping[str, Sequence[str]] = {"background_blur": ("--budget", "40evals")}
# Columns of the baselines, each with the column of its run.
PLAIN = {
    "best of N, no LLM": "best",
    "best of N, scripted": "best, scripted",
    "sequential, scripted": "best, scripted",
    "no LLM, as scripted": "best, scripted",
}
# Evaluates the initial program of a folder, or another one, with OpenEvolve's evaluator and prints its fitness.
THEIRS = """
import asyncio, json, logging, sys
from pathlib import Path
logging.disable(logging.CRITICAL)
from openevolve.config import Config, load_config
from openevolve.evaluator import Evaluator
from openevolve.utils.metrics_utils import get_fitness_score
folder = Path(sys.argv[1])
names = ("config.yaml", "config.yml", "config_phase_1.yaml")
file = next((folder / name for name in names if (folder / name).exists()), None)
config = load_config(str(file)) if file else Config()
config.evaluator.use_llm_feedback = False
program = Path(sys.argv[2]) if sys.argv[2:] else next(path for path in sorted(folder.glob("init*_pro*.*")))
evaluator = Evaluator(config.evaluator, str(folder / "evaluator.py"), suffix=program.suffix)
metrics = asyncio.run(evaluator.evaluate_program(program.read_text(), "initial"))
print("\\n" + json.dumps(get_fitness_score(metrics, config.database.feature_dimensions)))
"""

_ONCE = ("best", "failed", "status", "wall s")
COLUMNS = (
    "folder",
    "OpenEvolve's initial",
    "initial",
    *_ONCE,
    "best, evaluated again",
    "gained",
    *(f"{item}, scripted" for item in _ONCE),
    "calls",
    *PLAIN,
)


class Run(NamedTuple):
    """Result of a run of Atoll."""

    initial: float | None
    best: float | None
    failures: int
    calls: int
    status: str
    seconds: float
    run: str = "latest"
    baselines: Mapping[str, Any] = {}  # by name, as in `atoll run --baselines --json`

    @property
    def gain(self) -> float:
        return 0.0 if self.initial is None or self.best is None else self.best - self.initial


def theirs(folder: Path, program: Path | None = None) -> list[float]:
    """Returns the scores of OpenEvolve for the initial or another program, one per evaluation."""
    result: list[float] = []
    for _ in range(TIMES):
        ended = subprocess.run(
            [str(PYTHON), "-c", THEIRS, str(folder), *([str(program)] if program else [])],
            capture_output=True,
            text=True,
            check=False,
            timeout=LIMIT_SECONDS,
            env={**os.environ, "OPENAI_API_KEY": "none"},
        )
        if ended.returncode:
            raise RuntimeError(f"OpenEvolve's evaluator failed on {folder.name}:\n{ended.stderr[-2000:]}")
        result.append(float(json.loads(ended.stdout.strip().splitlines()[-1])))
    return result


def ours(folder: Path, store: str, iterations: int, seed: int | None, more: Sequence[str], libraries: str) -> Run:
    """Runs Atoll on a folder by its command line."""
    command = [sys.executable, "-m", "atoll", "run", str(folder), "--iterations", str(iterations)]
    command += [] if seed is None else ["--seed", str(seed)]
    since = time.monotonic()
    ended = subprocess.run(
        [*command, "--store", store, "--json", "--quiet", "--baselines", *more],
        capture_output=True,
        text=True,
        check=False,
        timeout=LIMIT_SECONDS,
        env={**os.environ, "PYTHONPATH": libraries, "OPENAI_API_KEY": "none", "NO_PROXY": "127.0.0.1"},
    )
    if not ended.stdout.strip():
        return Run(
            None, None, 0, 0, f"exit {ended.returncode}: {ended.stderr.strip()[-200:]}", time.monotonic() - since
        )
    summary: Mapping[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    return Run(
        summary["initial_score"],
        summary["best_score"],
        summary["failures"],
        summary["calls"],
        summary["status"],
        summary["seconds"],
        summary["run"],
        summary["baselines"],
    )


def scripted(prompt: str, number: int) -> str:
    """Responds with the longest program of the prompt and one editable number changed, as a diff if asked for one."""
    program = max(re.findall(r"```\w*\n(.*?)```", prompt, re.DOTALL), key=len, default="")
    lines = _find_editable(program, prompt)
    rng = Random(f"scripted {number}")
    numbered = [line for line in lines if re.search(NUMBER, line) and program.count(line) == 1]
    old = rng.choice(numbered or [line for line in lines if line.strip() and program.count(line) == 1] or [""])
    new = re.sub(NUMBER, lambda match: _changed(match[0], rng), old) if numbered else f"{old}  # kept"
    if "SEARCH" in prompt:
        return f"<<<<<<< SEARCH\n{old}\n=======\n{new}\n>>>>>>> REPLACE\n"
    return f"```\n{program.replace(old, new, 1)}```\n"


def _find_editable(program: str, prompt: str) -> list[str]:
    """Returns the lines that the prompt allows to edit, without docstrings and comments; all if it names none."""
    lines = program.split("\n")
    names = re.findall(r"`(\w+)`", "".join(re.findall(r"Edit only (.*?)\. ", prompt)))
    try:
        nodes = ast.parse(program).body
    except SyntaxError:
        return lines
    parts = [node for node in nodes if not names or set(names) & _get_names(node)]
    texts = [
        node
        for part in parts
        for node in ast.walk(part)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    ]
    hidden = {number for node in texts for number in range(node.lineno, (node.end_lineno or node.lineno) + 1)}
    numbers = {number for part in parts for number in range(part.lineno, (part.end_lineno or part.lineno) + 1)}
    return [lines[number - 1] for number in sorted(numbers - hidden) if not lines[number - 1].lstrip().startswith("#")]


def _get_names(node: ast.stmt) -> set[str]:
    """Returns the names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _changed(text: str, rng: Random) -> str:
    value = float(text) * rng.uniform(0.5, 1.5)
    return f"{value:.4g}" if "." in text else str(max(1, round(value)))


def copy_libraries(folder: str) -> str:
    """Copies the libraries that the folders import. Returns the path of the copy."""
    sites = list((ROOT / ".venv-peers" / "lib").glob("python*/site-packages"))
    path = Path(folder) / "site-packages"  # the sandbox recognizes package folders by this name
    for name in LIBRARIES:
        shutil.copytree(sites[0] / name, path / name)
    os.chmod(folder, 0o755)
    return str(path)


def measured(
    names: Sequence[str], examples: Path, iterations: int, seed: int | None, parts: dict[str, list[object]]
) -> list[list[object]]:
    """Returns a row per folder. Runs and saves the missing ones, slow ones last."""
    missing = sorted((name for name in names if name not in parts), key=SLOW.__contains__)
    with tempfile.TemporaryDirectory(prefix="atoll-bench-") as folder_name, server.ModelServer(scripted) as model:
        libraries = copy_libraries(folder_name)
        for name in missing:
            print(f"{name} ...", file=sys.stderr)
            folder = examples / name
            peer = theirs(folder)
            alone = ours(folder, f"{folder_name}/atoll.db", iterations, seed, SLOW.get(name, ()), libraries)
            again = theirs(folder, best(folder_name, alone.run)) if alone.gain > 0 else []
            llm_options = ["--llm", f"openai:scripted@{model.url}", *SLOW.get(name, ())]
            led = ours(folder, f"{folder_name}/atoll.db", iterations, seed, llm_options, libraries)
            repeated = [_range(again) if again else "-", _gained(alone, peer, again)]
            plain = [*_plain(alone, ("best_of_n",)), *_plain(led, tuple(baselines.TITLES))]
            parts[name] = [name, _range(peer), *_row(alone), *repeated, *_row(led)[1:], led.calls, *plain]
            PARTS.write_text(json.dumps(parts) + "\n")
    return [parts[name] for name in names]


def best(folder: str, run: str) -> Path:
    """Writes the best program of a run to a file."""
    path = Path(folder) / "best.py"
    command = [sys.executable, "-m", "atoll", "best", run, "--store", f"{folder}/atoll.db", "-o", str(path)]
    subprocess.run(command, capture_output=True, check=True, timeout=LIMIT_SECONDS)
    return path


def _gained(run: Run, peer: Sequence[float], again: Sequence[float]) -> str:
    """Returns whether a run gained; `noise` if an initial score reaches a repeated score of the best program."""
    if run.gain <= 0 or run.best is None:
        return "no"
    return "yes" if min(again) > max(peer) else "noise"


def _range(results: Sequence[float]) -> str:
    low, high = min(results), max(results)
    return f"{low:.6g}" if f"{low:.6g}" == f"{high:.6g}" else f"{low:.6g} to {high:.6g}"


def _row(run: Run) -> list[object]:
    scores = ["-" if value is None else f"{value:.6g}" for value in (run.initial, run.best)]
    return [*scores, run.failures, run.status, round(run.seconds, 1)]


def _plain(run: Run, names: Sequence[str]) -> list[object]:
    """Returns the best score of each baseline of a run; a dash if it was not run."""
    results = [run.baselines.get(name) for name in names]
    scores = [item["best_score"] if isinstance(item, dict) else None for item in results]
    return ["-" if score is None else f"{score:.6g}" for score in scores]


def verdicts(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    """Describes for each baseline on which folders it equals or beats its run."""
    for title, run in PLAIN.items():
        pairs = [(row[0], row[columns.index(run)], row[columns.index(title)]) for row in rows]
        known = [
            (name, float(str(ours)), float(str(theirs))) for name, ours, theirs in pairs if "-" not in (ours, theirs)
        ]
        beaten = [str(name) for name, ours, theirs in known if theirs > ours]
        equal = [str(name) for name, ours, theirs in known if theirs == ours]
        yield (
            f"'{title}' against '{run}', {len(known)} folders, one run each: evolution is better on "
            f"{len(known) - len(beaten) - len(equal)}, MATCHED on {len(equal)}{_named(equal)}, BEATEN on "
            f"{len(beaten)}{_named(beaten)}."
        )


def _named(names: Sequence[str]) -> str:
    return f" ({', '.join(names)})" if names else ""


def make_notes(rows: Sequence[Sequence[object]], args: argparse.Namespace, names: Sequence[str]) -> list[str]:
    """Returns the notes below the table."""
    gained = sum(row[8] == "yes" for row in rows)
    finished = sum(row[5] == "done" and row[11] == "done" for row in rows)
    seed = "the seed of each folder" if args.seed is None else f"seed {args.seed}"
    return [
        f"{args.iterations} iterations, {seed}, one run each; OpenEvolve's initial score is the range of "
        f"{TIMES} evaluations by its own evaluator, which evaluated the best program without an LLM as often.",
        "A gain counts if the lowest of these is above the highest initial score.",
        "signal_processing has no combined_score, so OpenEvolve uses the mean of all its metrics, errors "
        "included. A gain there is not always a better filter.",
        f"Both runs completed: {finished} of {len(rows)}. Gained without an LLM: {gained} of {len(rows)} "
        f"(goal >= 5): {'MET' if gained >= 5 else 'MISSED'}; within the noise of the initial score: "
        f"{sum(row[8] == 'noise' for row in rows)}.",
        *([f"Skipped or not in the checkout: {', '.join(args.without)}."] if args.without else []),
        *(
            f"{name} had a budget of {SLOW[name][1]} because each evaluation takes many seconds."
            for name in SLOW
            if name in names
        ),
        *verdicts(COLUMNS, rows),
        "Baselines have as many evaluations and calls as their run; wall seconds are those of the run. If a score is "
        "noisy, the higher of two may be chance.",
        "The scripted LLM changes a random line with a number. It only shows that responses are used.",
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--folders", type=Path, required=True, help="examples folder of an OpenEvolve checkout")
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--seed", type=int, help="seed; default: the one of each folder")
    parser.add_argument("--fresh", action="store_true", help="run everything again")
    parser.add_argument("--without", nargs="+", choices=FOLDERS, default=[], help="folders to skip")
    args = parser.parse_args()
    # Some versions of OpenEvolve lack some of them.
    missing = [name for name in FOLDERS if not (args.folders / name / "evaluator.py").is_file()]
    if len(missing) == len(FOLDERS):
        print(f"{args.folders} has no {missing[0]}. Pass the examples folder of OpenEvolve.", file=sys.stderr)
        return 2
    args.without = [name for name in FOLDERS if name in (*missing, *args.without)]
    left_out = ["--without", *args.without] if args.without else []
    sys.argv = [sys.argv[0], "--folders", "EXAMPLES", *left_out]
    done: dict[str, list[object]] = json.loads(PARTS.read_text()) if PARTS.exists() and not args.fresh else {}
    names = [name for name in FOLDERS if name not in args.without]
    rows = measured(names, args.folders, args.iterations, args.seed, done)
    outcome.keep("folders", {"Folders": (COLUMNS, rows)}, make_notes(rows, args, names))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Scores a heuristic for the permutation flow shop by the time at which its last job ends."""

import contextlib
import importlib.util
import math
import os
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

FAIL, SECONDS = -1000.0, 10.0
PARTS: dict[str, Sequence[int]] = {"run": range(20, 40), "test": range(820, 860)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns minus the mean excess of the makespan over the lower bound, in percent."""
    excesses = list[float]()
    for seed in seeds:
        times = np.random.default_rng(seed).integers(1, 100, (20, 5))
        order = [int(job) for job in program.schedule(times.tolist())]
        assert sorted(order) == list(range(20)), "schedule must return a permutation of the jobs"
        bound = find_bound(times)
        excesses.append(100 * (compute_makespan(times, order) - bound) / bound)
    return -float(np.mean(excesses))


def compute_makespan(times: Any, order: Sequence[int]) -> int:
    ends = [0] * times.shape[1]
    for job in order:
        free = 0
        for machine, seconds in enumerate(times[job]):
            free = ends[machine] = max(free, ends[machine]) + int(seconds)
    return ends[-1]


def find_bound(times: Any) -> int:
    """Returns the largest load of a machine with the shortest way to it and from it."""
    before, after = np.cumsum(times, 1) - times, np.cumsum(times[:, ::-1], 1)[:, ::-1] - times
    return int((times.sum(0) + before.min(0) + after.min(0)).max())


def evaluate(program_path: str) -> dict[str, Any]:
    return judge(program_path, "run")


def evaluate_test(program_path: str) -> dict[str, Any]:
    """Evaluates on data that no run sees."""
    return judge(program_path, "test")


def judge(program_path: str, part: str) -> dict[str, Any]:
    """Measures a program in its own process, so that it can be killed and its output does not matter.

    A program that fails, takes too long or has a score that is not finite gets `FAIL` and an error text.
    """
    with tempfile.TemporaryDirectory() as folder:
        result, errors = Path(folder, "result"), Path(folder, "errors")
        command = [sys.executable, str(Path(__file__).resolve()), program_path, part, str(result)]
        with errors.open("wb") as stderr:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                cwd=folder,
                start_new_session=True,
            )
            try:
                process.wait(SECONDS)
            except subprocess.TimeoutExpired:
                return {"combined_score": FAIL, "error": f"The program took more than {SECONDS} seconds."}
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        try:
            score = float(result.read_text())
        except (OSError, ValueError):
            error = errors.read_text(errors="replace").strip()[-400:]
            return {"combined_score": FAIL, "error": error or "The program ended the process."}
    if not math.isfinite(score):
        return {"combined_score": FAIL, "error": f"The score is not finite: {score}."}
    return {"combined_score": score}


def run_child(program_path: str, part: str, result_path: str) -> None:
    """Loads and measures a program in this process. Writes the score to a file."""
    signal.alarm(math.ceil(SECONDS) + 1)  # ends this process even if its parent is killed
    del sys.argv[1:]
    warnings.simplefilter("ignore")
    spec = importlib.util.spec_from_file_location("program", program_path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(program)
        score = float(measure(program, PARTS[part]))
    except Exception as error:
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == program_path]
        sys.exit(f"{type(error).__name__}: {error}" + (f" (line {lines[-1]} of the program)" if lines else ""))
    Path(result_path).write_text(repr(score))


if __name__ == "__main__":
    run_child(*sys.argv[1:])

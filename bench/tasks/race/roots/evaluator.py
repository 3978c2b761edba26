"""Scores a method for finding roots by the function values that it needs."""

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
PARTS: dict[str, Sequence[int]] = {"run": range(80, 84), "test": range(880, 888)}
LIMIT = 200


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns minus the mean number of function values per root; a wrong root counts as `LIMIT`."""
    counts = list[int]()
    for seed in seeds:
        for function in make_functions(np.random.default_rng(seed)):
            counts.append(count_values(program, function))
    return -float(np.mean(counts))


def make_functions(rng: Any) -> list[Any]:
    """Returns increasing functions with one root between 0 and 1."""
    root, power = rng.uniform(0.05, 0.95), 2 * rng.integers(1, 4) + 1
    steep, scale = rng.uniform(5, 40), 10 ** rng.uniform(-2, 2)
    return [
        lambda x: scale * (math.exp(steep * (x - root)) - 1),
        lambda x: scale * math.atan(steep * (x - root)),
        lambda x: scale * ((x - root) ** power + 0.01 * (x - root)),
        lambda x: scale * (x**power - root**power),
        lambda x: scale * (math.sqrt(x + 0.001) - math.sqrt(root + 0.001)),
        lambda x: x - root + 0.1 * (math.sin(6 * x) - math.sin(6 * root)),
    ]


def count_values(program: Any, function: Any) -> int:
    count = 0

    def call(x: float) -> float:
        nonlocal count
        count += 1
        if count > LIMIT:
            raise RuntimeError(f"find_root used more than {LIMIT} function values")
        return float(function(min(max(float(x), 0.0), 1.0)))

    found = float(program.find_root(call, 0.0, 1.0))
    is_root = 0 <= found <= 1 and function(max(found - 1e-8, 0.0)) <= 0 <= function(min(found + 1e-8, 1.0))
    return count if is_root else LIMIT


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

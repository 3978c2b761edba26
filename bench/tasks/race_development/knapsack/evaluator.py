"""Scores a heuristic for the knapsack problem with several limits by the value that it packs."""

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

FAIL, SECONDS = -100.0, 10.0
PARTS: dict[str, Sequence[int]] = {"run": range(80, 92), "test": range(400, 424)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns minus the mean gap between the packed value and the upper bound, in percent."""
    gaps = list[float]()
    for seed in seeds:
        values, weights, limits = sample(seed)
        chosen = [int(item) for item in program.pack(values.tolist(), weights.tolist(), limits.tolist())]
        assert len(set(chosen)) == len(chosen), "pack must not take an item twice"
        assert set(chosen) <= set(range(len(values))), "pack must return indices of items"
        assert (weights[chosen].sum(0) <= limits).all(), "the items are too heavy"
        gaps.append(100 * (1 - float(values[chosen].sum()) / find_bound(values, weights, limits)))
    return -float(np.mean(gaps))


def sample(seed: int) -> tuple[Any, Any, Any]:
    """Returns 60 items with four weights each, values that depend on them, and limits of different tightness."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(5, 100, (60, 4))
    values = rng.integers(20, 60, 60) + (weights @ rng.dirichlet(np.ones(4))).astype(int)
    return values, weights, (weights.sum(0) * rng.uniform(0.2, 0.6, 4)).astype(int)


def find_bound(values: Any, weights: Any, limits: Any) -> float:
    """Returns the value of the Lagrangian relaxation after 300 steps of its subgradient."""
    prices, best = np.zeros(4), math.inf
    for step in range(300):
        gains = values - weights @ prices
        best = min(best, float(gains[gains > 0].sum() + prices @ limits))
        slope = limits - weights[gains > 0].sum(0)
        prices = np.maximum(prices - 0.5 / (1 + 0.1 * step) * slope / max(float(np.linalg.norm(slope)), 1e-9), 0)
    return best


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

"""Scores a forecast of seasonal series by its error relative to a repetition of the last year."""

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
PARTS: dict[str, Sequence[int]] = {"run": range(20, 44), "test": range(800, 848)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns minus the absolute error, at most 50 per value, in percent of the error of repeating the last year."""
    errors, naive_errors = list[float](), list[float]()
    for seed in seeds:
        series = sample(seed)
        known, future = series[:84], series[84:]
        result = np.asarray(program.forecast(known.copy(), 12), dtype=float)
        assert result.shape == future.shape, "forecast must return an array of 12 values"
        errors.append(float(np.mean(np.minimum(np.abs(result - future), 50))))
        naive_errors.append(float(np.mean(np.abs(known[-12:] - future))))
    return -100 * float(np.mean(errors)) / float(np.mean(naive_errors))


def sample(seed: int) -> Any:
    """Returns eight years of monthly values: a wandering level with a slope, a season, noise and a few outliers."""
    rng = np.random.default_rng(seed)
    month = np.arange(96)
    level = 100 + rng.normal(0, 0.4) * month + np.cumsum(rng.normal(0, 0.7, 96))
    season = 8 * np.sin(2 * np.pi * (month / 12 + rng.random())) + 4 * np.sin(2 * np.pi * (month / 6 + rng.random()))
    outliers = rng.choice([-20.0, 20.0], 96) * (rng.random(96) < 0.04) * (month < 84)
    return level + season * rng.uniform(0.5, 1.5) + rng.normal(0, 3, 96) + outliers


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

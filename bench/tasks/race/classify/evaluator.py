"""Scores a classifier on points of two spirals with useless features."""

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

FAIL, SECONDS = -1.0, 10.0
PARTS: dict[str, Sequence[int]] = {"run": (41,), "test": (941, 942)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns the accuracy on points that are not in the training set, in percent."""
    train_x, train_y = sample(40, 150)
    shares = list[float]()
    for seed in seeds:
        x, y = sample(seed, 300)
        labels = np.asarray(program.predict(train_x.copy(), train_y.copy(), x))
        assert labels.shape == y.shape, "predict must return one label per row of x"
        shares.append(100 * float(np.mean(labels == y)))
    return float(np.mean(shares))


def sample(seed: int, count: int) -> tuple[Any, Any]:
    """Returns points of two spirals, of which two of four features are noise, on different scales."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, count)
    turn = np.sqrt(rng.random(count)) * 1.4 * np.pi + 0.4
    spiral = [turn * np.cos(turn + labels * np.pi), turn * np.sin(turn + labels * np.pi)]
    points = np.stack([*spiral, rng.normal(size=count), rng.normal(size=count)], 1)
    points[:, :2] += rng.normal(0, 0.35, (count, 2))
    return points * np.array([1.0, 10.0, 30.0, 3.0]), labels


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

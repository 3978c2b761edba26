"""Scores the law of an oscillator by its error on points that were not used to fit its constants."""

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

FAIL, SECONDS = -10.0, 10.0
PARTS: dict[str, Sequence[int]] = {"run": (2,), "test": (3, 4, 5)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Fits the constants and returns minus log10 of the normalized mean squared error on other points."""
    x, v, target = sample(1)
    rng = np.random.default_rng(5)
    starts = [np.ones(10), *(rng.normal(size=10) for _ in range(3))]
    params = min((fit(program, x, v, target, start) for start in starts), key=lambda pair: pair[0])[1]
    errors = list[float]()
    for seed in seeds:
        x, v, target = sample(seed)
        errors.append(float(np.mean((predict(program, x, v, params) - target) ** 2) / np.var(target)))
    return -math.log10(max(float(np.mean(errors)), 1e-8))


def sample(seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    x, v = rng.uniform(-2, 2, 300), rng.uniform(-2, 2, 300)
    return x, v, -0.8 * np.sin(1.3 * x) - 0.35 * v**3 + 0.6 * x * v * np.exp(-0.5 * x * x)


def predict(program: Any, x: Any, v: Any, params: Any) -> Any:
    with np.errstate(all="ignore"):
        result = np.asarray(program.equation(x.copy(), v.copy(), params.copy()), dtype=float)
    return np.nan_to_num(np.broadcast_to(result, x.shape), nan=1e6, posinf=1e6, neginf=-1e6)


def fit(program: Any, x: Any, v: Any, target: Any, params: Any) -> tuple[float, Any]:
    """Returns the error and the constants after 60 steps of Levenberg and Marquardt."""
    residual, damping = predict(program, x, v, params) - target, 1e-2
    for _ in range(60):
        steps = 1e-6 * np.eye(10)
        jacobian = np.stack([(predict(program, x, v, params + step) - target - residual) / 1e-6 for step in steps], 1)
        matrix = jacobian.T @ jacobian
        change = np.linalg.lstsq(matrix + damping * (np.eye(10) + np.diag(np.diag(matrix))), jacobian.T @ residual)[0]
        moved = predict(program, x, v, params - change) - target
        if moved @ moved < residual @ residual:
            params, residual, damping = params - change, moved, damping / 5
        else:
            damping = min(damping * 5, 1e9)
    return float(residual @ residual), params


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

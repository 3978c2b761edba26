"""Scores a rule for orders of a store by its costs."""

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
PARTS: dict[str, Sequence[int]] = {"run": range(60, 70), "test": range(600, 620)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns minus the mean cost of a day."""
    return -float(np.mean([simulate(program, seed) for seed in seeds]))


def simulate(program: Any, seed: int) -> float:
    """Returns the mean cost of 250 days after 20 days of known demand. An order arrives two days later.

    A day costs 1 per unit in the store, 8 per unit that customers wait for, and 30 for an order, but at most 900.
    """
    demand, stock, coming, cost = sample(seed), 40, [0, 0], 0.0
    for day in range(20, 270):
        amount = float(program.order(stock, list(coming), list(demand[:day])))
        assert 0 <= amount <= 1e6, "order must return a number from 0 to 1000000"
        coming.append(round(amount))
        stock += coming.pop(0) - demand[day]
        cost += min(max(stock, 0) + 8 * max(-stock, 0) + 30 * (round(amount) > 0), 900) / 250
    return cost


def sample(seed: int) -> list[int]:
    """Returns the demands of 270 days, whose mean differs by store, by day of the week and slowly over time."""
    rng = np.random.default_rng(seed)
    day = np.arange(270)
    week = np.array([1.0, 0.8, 0.8, 1.0, 1.2, 1.6, 0.6])
    season = 1 + 0.4 * np.sin(2 * np.pi * (day / 120 + rng.random()))
    return [int(number) for number in rng.poisson(rng.uniform(6, 20) * week[day % 7] * season)]


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

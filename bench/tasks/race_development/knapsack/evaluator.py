"""Scores a heuristic for the knapsack problem with several limits by the value that it packs."""

import contextlib
import importlib.util
import math
import os
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

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
        errors.touch()
        process = os.fork()  # a new interpreter would take longer than most programs
        if process == 0:
            run_child(os.path.abspath(program_path), part, folder)
        deadline, pause = time.monotonic() + SECONDS, 0.0005
        try:
            while os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                if time.monotonic() > deadline:
                    return {"combined_score": FAIL, "error": f"The program took more than {SECONDS} seconds."}
                time.sleep(pause)
                pause = min(2 * pause, 0.02)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            os.waitpid(process, 0)
        try:
            score = float(result.read_text())
        except (OSError, ValueError):
            error = errors.read_text(errors="replace").strip()[-400:]
            return {"combined_score": FAIL, "error": error or "The program ended the process."}
    if not math.isfinite(score):
        return {"combined_score": FAIL, "error": f"The score is not finite: {score}."}
    return {"combined_score": score}


def run_child(program_path: str, part: str, folder: str) -> NoReturn:
    """Loads and measures a program in this process, which then ends. Writes the score or an error to a file."""
    try:
        os.setsid()
        os.chdir(folder)
        for descriptor, name, mode in (
            (0, os.devnull, os.O_RDONLY),
            (1, os.devnull, os.O_WRONLY),
            (2, "errors", os.O_WRONLY),
        ):
            os.dup2(os.open(name, mode), descriptor)
        sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)  # noqa: SIM115
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(math.ceil(SECONDS) + 1)  # ends this process even if its parent is killed
        np.random.seed()  # as in a new process
        del sys.argv[1:]
        warnings.simplefilter("ignore")
        Path("result").write_text(repr(load_and_measure(program_path, part)))
    except BaseException as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == program_path]
        text = f"{type(error).__name__}: {error}" + (f" (line {lines[-1]} of the program)" if lines else "")
        Path("errors").write_text(text)
    finally:
        os._exit(0)


def load_and_measure(program_path: str, part: str) -> float:
    spec = importlib.util.spec_from_file_location("program", program_path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return float(measure(program, PARTS[part]))

"""Scores a forecast of seasonal series by its error relative to a repetition of the last year."""

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

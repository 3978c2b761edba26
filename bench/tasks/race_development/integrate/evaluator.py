"""Scores a method of numerical integration by its precision with few function values."""

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

FAIL, SECONDS = -20.0, 10.0
LIMIT = 9
PARTS: dict[str, Sequence[int]] = {"run": range(0, 20), "test": range(300, 340)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns the mean number of correct digits, at most 10 per integral."""
    digits = list[float]()
    for seed in seeds:
        for function, integral in sample(np.random.default_rng(seed)):
            error = abs(estimate(program, function) - integral) / abs(integral)
            digits.append(-math.log10(min(max(error, 1e-10), 1e10)))
    return float(np.mean(digits))


def sample(rng: Any) -> list[tuple[Any, float]]:
    """Returns positive functions on 0 to 1 and their integrals."""
    rate, place, power = rng.uniform(1, 8), rng.uniform(0.1, 0.9), rng.uniform(0.3, 3.5)
    peak, wave, phase = rng.uniform(2, 12), rng.uniform(3, 25), rng.uniform(0, 6)
    peak_integral = (math.atan(peak * (1 - place)) + math.atan(peak * place)) / peak
    return [
        (lambda x: math.exp(rate * x), math.expm1(rate) / rate),
        (lambda x: 1 / (1 + (peak * (x - place)) ** 2), peak_integral),
        (lambda x: x**power, 1 / (power + 1)),
        (lambda x: 1.5 + math.sin(wave * x + phase), 1.5 + (math.cos(phase) - math.cos(wave + phase)) / wave),
        (lambda x: abs(x - place), (place**2 + (1 - place) ** 2) / 2),
        (lambda x: 1 / (x + 0.02 * rate), math.log1p(50 / rate)),
    ]


def estimate(program: Any, function: Any) -> float:
    count = 0

    def call(x: float) -> float:
        nonlocal count
        count += 1
        if count > LIMIT:
            raise RuntimeError(f"integrate used more than {LIMIT} function values")
        return float(function(min(max(float(x), 0.0), 1.0)))

    return float(program.integrate(call, 0.0, 1.0))


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

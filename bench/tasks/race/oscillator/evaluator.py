"""Scores the law of an oscillator by its error on points that were not used to fit its constants."""

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

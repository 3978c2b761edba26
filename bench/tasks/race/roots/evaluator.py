"""Scores a method for finding roots by the function values that it needs."""

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

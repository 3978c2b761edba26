"""Scores how evenly numbers are divided into groups of equal sum."""

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
PARTS: dict[str, Sequence[int]] = {"run": range(60, 66)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns minus the mean of log10 of the spread of the sums, relative to their mean."""
    scores = list[float]()
    for seed in seeds:
        numbers = [int(number) for number in np.random.default_rng(seed).integers(1, 10**6, 40)]
        groups = [int(group) for group in program.split(list(numbers), 5)]
        assert len(groups) == 40, "split must return one group per number"
        assert set(groups) <= set(range(5)), "groups are numbered from 0 to 4"
        sums = [sum(number for number, group in zip(numbers, groups, strict=True) if group == k) for k in range(5)]
        scores.append(-math.log10(max((max(sums) - min(sums)) / np.mean(sums), 1e-7)))
    return float(np.mean(scores))


def evaluate(program_path: str) -> dict[str, Any]:
    return judge(program_path, "run")


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

"""Scores a controller by how fast it brings masses to their targets and how little force it uses."""

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
PARTS: dict[str, Sequence[int]] = {"run": range(30, 42), "test": range(900, 924)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns minus the mean cost of a step, times 100."""
    return -100 * float(np.mean([simulate(program, seed) for seed in seeds]))


def simulate(program: Any, seed: int) -> float:
    """Returns the mean over 300 steps of the distance, at most 5, plus 0.01 times the squared change of the force.

    A step has 0.05 seconds. The force acts two steps late. A spring and a constant wind act on the mass.
    The target jumps once.
    """
    rng = np.random.default_rng(seed)
    mass, drag, spring = rng.uniform(0.7, 1.5), rng.uniform(0.1, 0.5), rng.uniform(0.0, 0.8)
    wind, targets = rng.uniform(-1, 1), rng.choice([-1, 1], 2) * rng.uniform(0.5, 1.5, 2)
    noise = rng.normal(0, 0.02, (300, 2))
    position = speed = total = cost = 0.0
    forces = [0.0, 0.0, 0.0]
    for step in range(300):
        target = float(targets[step // 150])
        seen, seen_speed = position + float(noise[step, 0]), speed + float(noise[step, 1])
        total += (target - seen) * 0.05
        force = float(program.control(target, seen, seen_speed, total))
        assert math.isfinite(force), "control must return a finite force"
        forces.append(min(max(force, -10.0), 10.0))
        speed += 0.05 * (forces[-3] + wind - drag * speed - spring * position) / mass
        position += 0.05 * speed
        cost += (min(abs(target - position), 5.0) + 0.01 * (forces[-1] - forces[-2]) ** 2) / 300
    return cost


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

"""Scores a controller by how fast it brings masses to their targets and how little force it uses."""

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

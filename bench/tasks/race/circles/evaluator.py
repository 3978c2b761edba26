"""Scores a packing of 12 circles in the unit square by the sum of their radii."""

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

FAIL, SECONDS = -1.0, 10.0
PARTS: dict[str, Sequence[int]] = {"run": (12,)}


def measure(program: Any, counts: Sequence[int]) -> float:
    """Returns the sum of the radii.

    Raises:
        ValueError: Circles overlap or leave the square.
    """
    (count,) = counts
    circles = np.asarray(program.pack(count), dtype=float)
    if circles.shape != (count, 3):
        raise ValueError(f"pack must return {count} rows with x, y and radius, but the shape is {circles.shape}")
    centers, radii = circles[:, :2], circles[:, 2]
    if not np.isfinite(circles).all() or (radii < 0).any():
        raise ValueError("radii must be 0 or more, and all numbers finite")
    if (centers - radii[:, None] < -1e-9).any() or (centers + radii[:, None] > 1 + 1e-9).any():
        raise ValueError("a circle leaves the unit square")
    for first in range(count):
        for second in range(first):
            gap = math.dist(centers[first], centers[second]) - radii[first] - radii[second]
            if gap < -1e-9:
                raise ValueError(f"circles {second} and {first} overlap by {-gap:.3g}")
    return float(radii.sum())


def evaluate(program_path: str) -> dict[str, Any]:
    return judge(program_path, "run")


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

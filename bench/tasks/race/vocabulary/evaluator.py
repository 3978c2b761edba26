"""Scores a vocabulary for tokens by the characters per token on another text of the same language."""

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

FAIL, SECONDS = -1.0, 10.0
PARTS: dict[str, Sequence[int]] = {"run": range(71, 73), "test": range(771, 774)}


def measure(program: Any, seeds: Sequence[int]) -> float:
    """Returns the mean number of characters per token."""
    vocabulary = {str(token) for token in program.build_vocabulary(write_text(70), 80)}
    assert len(vocabulary) <= 80, "the vocabulary has more than 80 strings"
    rates = list[float]()
    for seed in seeds:
        text = write_text(seed)
        rates.append(len(text) / count_tokens(text, vocabulary))
    return float(np.mean(rates))


def count_tokens(text: str, vocabulary: set[str]) -> int:
    """Counts tokens. Each is the longest string of the vocabulary that fits, or one character."""
    longest, place, count = max(map(len, vocabulary), default=1), 0, 0
    while place < len(text):
        lengths = range(min(longest, len(text) - place), 1, -1)
        place += next((length for length in lengths if text[place : place + length] in vocabulary), 1)
        count += 1
    return count


def write_text(seed: int) -> str:
    """Returns 1200 words of an invented language; frequent words are short, and some words have endings."""
    language = np.random.default_rng(7)
    syllables = [a + b for a in "bdfklmnprst" for b in "aeiou"]
    words = ["".join(language.choice(syllables, 1 + rank // 60 + language.integers(0, 2))) for rank in range(240)]
    rng = np.random.default_rng(seed)
    chances = 1 / np.arange(2, 242)
    chosen = rng.choice(240, 1200, p=chances / chances.sum())
    return " ".join(words[index] + str(rng.choice(["", "", "", "ing", "ed", ","])) for index in chosen)


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

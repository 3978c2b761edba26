"""Runs `atoll.evolve` with a store, to be killed. Appends each finished evaluator call and LLM call to a file."""

import os
import sys
import time
from pathlib import Path
from typing import Any

import atoll

LETTERS = list("abcdefgh")
SECONDS = 0.02  # of an evaluator call and of an LLM call


def append(name: str, line: str) -> None:
    """Appends a line in one write, so that a kill leaves no half of it."""
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, f"{line}\n".encode())
    os.close(descriptor)


def evaluate(text: str, letter: str) -> tuple[float, str]:
    time.sleep(SECONDS)
    score = min(text.count(letter), 6) / 6
    append("evaluations", f"{text}|{letter}")
    return score, f"MORE {letter}"


def model(prompt: str) -> str:
    time.sleep(SECONDS)
    text = prompt.split(" to improve:", 1)[1].split("```text\n", 1)[1].split("\n```", 1)[0]
    hints = [line.rpartition("MORE ")[2] for line in prompt.splitlines() if line.startswith("Feedback: MORE ")]
    append("prompts", f"{hash_text(prompt)}")
    return f"IDEA: more letters.\n```text\n{text} {' '.join(hints)}\n```"


def hash_text(text: str) -> str:
    from atoll.candidate import content_hash

    return content_hash(text)


def run(**options: Any) -> Any:
    return atoll.evolve(
        "go",
        evaluate,
        data=LETTERS,
        test=["y", "z"],
        llm=model,
        budget="400evals",
        target=1.0,
        store="atoll.db",
        verbose=False,
        workers=2,
        **options,
    )


if __name__ == "__main__":
    os.chdir(sys.argv[1])
    result = run(resume=True)
    Path("score").write_text(f"{result.score} {result.test} {result.status} {result.cost.evaluator_calls}")

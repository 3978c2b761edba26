"""A model that answers at once with the program that it was shown and another constant in it.

    python -m bench.model_server SEED

It is a process of its own, so that its CPU time is nobody's. It prints its address; when its standard input ends, it
prints when it sent each reply and how long each prompt was, and goes.
"""

import json
import re
import sys
import time
from random import Random

from atoll.testing import server

CURRENT = re.compile(r"^# Current program$", re.MULTILINE | re.IGNORECASE)  # both call it so
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSTANT = re.compile(r"^([A-Z]\w*) = \d+\.\d+$", re.MULTILINE)


def reply(prompt: str, rng: Random) -> str:
    """Returns the current program of a prompt in a fence, its first constant changed.

    Raises:
        ValueError: The prompt shows no such program.
    """
    displayed = FENCED.search(CURRENT.split(prompt)[-1])
    if displayed is None or not CONSTANT.search(displayed[1]):
        raise ValueError(f"the prompt shows no current program with a constant in it:\n{prompt}")
    changed = CONSTANT.sub(lambda result: f"{result[1]} = {rng.random():.12f}", displayed[1], count=1)
    return f"```python\n{changed}```\n"


def serve(seed: int) -> None:
    """Answers until standard input ends; every reply differs, and its dice depend on its number only."""
    replies: list[tuple[float, int]] = []

    def answer(prompt: str, number: int) -> str:
        text = reply(prompt, Random(f"{seed} {number}"))
        replies.append((time.monotonic(), len(prompt)))
        return text

    with server.ModelServer(answer) as model:
        print(model.url, flush=True)
        sys.stdin.read()
    print(json.dumps(replies))


if __name__ == "__main__":
    serve(int(sys.argv[1]))

"""Model server that responds at once with the program of the prompt and another constant.

    python -m bench.model_server SEED

It is a separate process, so that its CPU time is not counted. It prints its address. When its standard input ends, it
prints the time of each response and the length of each prompt, and exits.
"""

import json
import re
import sys
import time
from random import Random

from atoll.testing import server

# Titles of the program to change, in OpenEvolve's prompts and in those of the policies of Atoll.
CURRENT = re.compile(
    r"^# (?:Current program|(?:Program to \w+|Best program so far|Initial program): .*)$", re.MULTILINE | re.IGNORECASE
)
FENCED = re.compile(r"^```\w*\n(.*?)^```", re.MULTILINE | re.DOTALL)
CONSTANT = re.compile(r"^([A-Z]\w*) = \d+\.\d+$", re.MULTILINE)


def reply(prompt: str, rng: Random) -> str:
    """Returns the current program of a prompt in a fence, with its first constant changed.

    Raises:
        ValueError: The prompt shows no such program.
    """
    program = FENCED.search(CURRENT.split(prompt)[-1])
    if program is None or not CONSTANT.search(program[1]):
        raise ValueError(f"the prompt shows no current program with a constant in it:\n{prompt}")
    changed = CONSTANT.sub(lambda match: f"{match[1]} = {rng.random():.12f}", program[1], count=1)
    return f"```python\n{changed}```\n"


def serve(seed: int) -> None:
    """Responds until standard input ends. Every response differs; its randomness depends only on its number."""
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

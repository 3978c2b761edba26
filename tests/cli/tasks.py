"""A small task folder and an LLM for it."""

import re
from pathlib import Path
from random import Random

TASK = '''\
"""Find the line through the points."""

NAME = "inputs"


def line(x: float, y: float) -> float:
    """Returns the height at x, whatever y is."""
    return x


def inputs():
    return [(1.0, 5.0), (2.0, 7.0), (4.0, 11.0)]


def evaluate(line, point):
    x, height = point
    return -abs(line(x, 0.0) - height)
'''
TOML = """\
system = "llmsr"

[task]
function = "line"

[llmsr]
num_islands = 3

[run]
workers = 1
"""


def make(folder: Path, task: str = TASK, toml: str = TOML) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "task.py").write_text(task)
    (folder / "atoll.toml").write_text(toml)
    return folder


def answer(prompt: str, number: int = 0) -> str:
    """Returns the next version, as a model that always says the same to the same prompt."""
    version = re.findall(r"def (line_v\d+)", prompt)[-1]
    rng = Random(prompt)
    return f"```python\ndef {version}(x, y):\n    return {rng.uniform(1, 3):.4f} * x + {rng.uniform(2, 4):.4f}\n```"

"""Ten functions of different kinds with inputs, for tests of the syntax mutator."""

import contextlib
import signal
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np


class Sample(NamedTuple):
    """Source, and the arguments for its first function."""

    source: str
    inputs: tuple[tuple[Any, ...], ...]


EQUATION = '''import numpy as np


def equation(x: np.ndarray, v: np.ndarray, params: np.ndarray) -> np.ndarray:
    """Finds the acceleration of an oscillator.

    Args:
        x: positions
    """
    # a linear start
    dv = params[0] * x + params[1] * v + params[2]
    return dv
'''

CAP_SET = '''def priority(el: tuple, n: int) -> float:
    """Returns how early `el` should be added."""
    score = n
    in_el = 0
    el_count = el.count(0)
    if el_count == 0:
        score += n ** 2
        if el[1] == el[-1]:
            score *= 1.5
    else:
        if el[1] == el[-1]:
            score *= 0.5
    for e in el:
        if e == 0:
            if in_el == 0:
                score *= n * 0.5
            elif in_el == el_count - 1:
                score *= 0.5
            in_el += 1
    return score
'''

EMPTY_CAP_SET = "def priority(el: tuple[int, ...], n: int) -> float:\n    return 0.0\n"

BIN_PACKING = '''import numpy as np


def priority(item: float, bins: np.ndarray) -> np.ndarray:
    """Returns the priority of each bin."""
    ratios = item / bins
    log_ratios = np.log(ratios)
    priorities = -log_ratios
    priorities[bins == np.max(bins)] = -1.0
    return np.where(bins - item < 5, priorities + 2.0, priorities)
'''

SORTING = '''def order(jobs: list[float], limit: int) -> list[float]:
    """Sorts jobs by a rule of thumb."""
    result = list(jobs)
    for i in range(len(result)):
        for j in range(len(result) - 1 - i):
            if result[j] > result[j + 1]:
                result[j], result[j + 1] = result[j + 1], result[j]
    total = 0.0
    for value in result:
        if total + value > limit:
            break
        total += value
    return sorted(result, key=lambda each: abs(each - total))
'''

TEXT = '''def score(word: str, other: str) -> float:
    """Returns how alike two words are."""
    same = 0
    for a, b in zip(word, other):
        if a == b:
            same += 1
    longest = max(len(word), len(other))
    if word.startswith("a") and not other.endswith("z"):
        same += 2
    label = word.lower() + "-" + other
    return same / (longest + 1) + 0.01 * label.count("e")
'''

SEARCH = '''def find(values, wanted):
    """Returns the index of a number in sorted values, or -1."""
    low, high = 0, len(values) - 1
    while low <= high:
        middle = (low + high) // 2
        if values[middle] == wanted:
            return middle
        if values[middle] < wanted:
            low = middle + 1
        else:
            high = middle - 1
    return -1
'''

ENERGY = "def energy(mass, speed):\n    return mass * speed\n"

STATISTICS = """import math

SCALE = 2.5


def spread(values: list[float], weight: float = 1.0) -> float:
    mean = sum(values) / len(values)
    squares = sum((value - mean) ** 2 for value in values)
    deviation = math.sqrt(squares / len(values)) if values else 0.0
    largest = max(abs(value - mean) for value in values)
    return deviation * weight + SCALE * min(largest, 10.0)
"""

CLASSES = '''"""A policy with a state."""
from math import exp, sqrt

RATE = 0.1


def decide(position: float, velocity: float, step: int) -> float:
    policy = Policy(gain=1.5)
    push = policy.push(position, velocity)
    return push if step % 2 == 0 else -push


class Policy:
    """Pushes back."""

    def __init__(self, gain: float) -> None:
        self.gain = gain

    def push(self, position: float, velocity: float) -> float:
        """Returns a force."""
        force = -self.gain * position - RATE * velocity
        limit = sqrt(abs(position)) + 1.0
        if force > limit:
            force = limit
        return force * exp(-abs(velocity))
'''

_VECTOR = np.linspace(0.5, 3.0, 6)
_VALUES = [1.0, 2.5, 4.0, 4.5, 7.0, 9.0]

CORPUS: dict[str, Sample] = {
    "equation": Sample(EQUATION, ((_VECTOR, _VECTOR[::-1] - 1.0, np.ones(10)),)),
    "cap set": Sample(CAP_SET, (((0, 1, 2, 1), 4), ((1, 2, 2, 1), 4))),
    "empty cap set": Sample(EMPTY_CAP_SET, (((0, 1, 2, 1), 4),)),
    "bin packing": Sample(BIN_PACKING, ((3.0, np.array([10.0, 4.0, 7.0, 3.5])),)),
    "sorting": Sample(SORTING, (([3.0, 1.0, 2.0, 8.0], 6),)),
    "text": Sample(TEXT, (("apple", "maple"), ("a", "zebra"))),
    "search": Sample(SEARCH, ((_VALUES, 4.0), (_VALUES, 5.0))),
    "energy": Sample(ENERGY, ((2.0, 3.0),)),
    "statistics": Sample(STATISTICS, ((_VALUES, 2.0),)),
    "classes": Sample(CLASSES, ((1.0, -0.5, 2), (-2.0, 0.3, 3))),
}


def run_source(source: str, inputs: tuple[tuple[Any, ...], ...], seconds: float = 1.0) -> BaseException | None:
    """Runs a source, calls its first function with each input, and returns the exception, or None."""
    namespace: dict[str, Any] = {}
    try:
        with _no_warnings(), _time_limit(seconds):
            exec(compile(source, "<child>", "exec"), namespace)
            function: Callable[..., Any] = namespace[_find_first_function(source)]
            for arguments in inputs:
                function(*(value.copy() if hasattr(value, "copy") else value for value in arguments))
    except Exception as error:
        return error
    return None


def _find_first_function(source: str) -> str:
    return next(line.split("(")[0].removeprefix("def ") for line in source.splitlines() if line.startswith("def "))


@contextlib.contextmanager
def _no_warnings() -> Iterator[None]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after some time, because a changed loop may not end."""

    def stop(number: int, frame: Any) -> None:
        raise TimeoutError(f"the function took more than {seconds} s")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)

"""Speed of a sort, relative to a fixed merge sort that runs in turn with it on the same numbers."""

import random
import runpy
import time
from collections.abc import Callable
from pathlib import Path

_RNG = random.Random(0)
LISTS = [[_RNG.randint(0, 9999) for _ in range(400)] for _ in range(4)]
LISTS.append(sorted(LISTS[0])[:200] + LISTS[1][:200])  # half in order
CASES: list[list[int]] = [[], [1], [2, 1], [3, 3, 3], [5, -1, 5, 0, -1], *LISTS]
ROUNDS = 7


def reference(values: list) -> list:
    """Sorts by halves; the unit of speed."""
    if len(values) < 2:
        return list(values)
    middle = len(values) // 2
    left, right = reference(values[:middle]), reference(values[middle:])
    merged: list = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] <= right[j]:
            merged.append(left[i])
            i += 1
        else:
            merged.append(right[j])
            j += 1
    return merged + left[i:] + right[j:]


def measure(sort: Callable[[list], list]) -> float:
    """Returns the seconds for all lists."""
    start = time.perf_counter()
    for values in LISTS:
        sort(values)
    return time.perf_counter() - start


def evaluate(path: str) -> dict[str, float]:
    """Returns the speed: 2 is twice as fast as the reference. A wrong result is an error."""
    block = Path(path).read_text(encoding="utf-8").partition("EVOLVE-BLOCK-START")[2]
    for name in ("sorted(", ".sort(", "import"):
        if name in block:
            raise ValueError(f"The sort must not use {name}: it would measure Python's own sort.")
    sort = runpy.run_path(path)["sort"]
    for values in CASES:
        if list(sort(list(values))) != sorted(values):
            raise ValueError(f"wrong order for {values[:10]}")
    ratios = sorted(measure(reference) / measure(sort) for _ in range(ROUNDS))
    return {"combined_score": ratios[ROUNDS // 2]}  # the median is robust to a busy machine

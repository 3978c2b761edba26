"""What a program is like: the dimensions of the grid that an island keeps its programs in."""

import math
from collections.abc import Callable, Sequence

from atoll import function
from atoll.candidate import digest

USUAL = ("complexity", "diversity")

type Feature = Callable[[function.Function], float]


def complexity(fn: function.Function) -> float:
    """Returns the length in characters, as OpenEvolve."""
    return float(len(str(fn.skeleton())))


class Diversity:
    """How far a program is from the first few that came, on average, from 0 to 1.

    A distance is the share of lines that two programs do not have in common. The references are the first programs
    that differ, at most `size`; what was said of a program once stays, so that it never leaves its cell by itself, and
    a resume, which adds the same programs in the same order, says the same.
    """

    def __init__(self, size: int = 20) -> None:
        self._size = size
        self._references: list[frozenset[str]] = []
        self._said: dict[str, float] = {}

    def __call__(self, fn: function.Function) -> float:
        text = str(fn.skeleton())
        key = digest(text)
        if key not in self._said:
            lines = frozenset(filter(None, map(str.strip, text.splitlines())))
            self._said[key] = self._mean(lines)
            if len(self._references) < self._size and lines not in self._references:
                self._references.append(lines)
        return self._said[key]

    def _mean(self, lines: frozenset[str]) -> float:
        return sum(distance(lines, other) for other in self._references) / max(1, len(self._references))


def distance(one: frozenset[str], other: frozenset[str]) -> float:
    """Returns the share of lines that only one of two programs has."""
    both = len(one & other)
    either = len(one) + len(other) - both
    return 1.0 - both / either if either else 0.0


def features_of(names: Sequence[str], reference_size: int = 20) -> Sequence[Feature]:
    """Returns what measures each dimension; each island needs its own, since it has references of its own."""
    built_in: dict[str, Feature] = {"complexity": complexity, "score": function.rank_of}
    if "diversity" in names:
        built_in["diversity"] = Diversity(reference_size)
    return [_feature(name, built_in.get(name)) for name in names]


def _feature(name: str, otherwise: Feature | None) -> Feature:
    """Returns the evaluator's metric of a name, else what we measure ourselves; NaN, a cell of its own, if neither."""

    def measure(fn: function.Function) -> float:
        metrics = fn.evaluation.metrics if fn.evaluation else {}
        if name in metrics:
            return metrics[name]
        return otherwise(fn) if otherwise else math.nan

    return measure

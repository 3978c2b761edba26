"""Features of programs: the dimensions of the MAP-Elites grid."""

import math
from collections.abc import Callable, Sequence

from atoll import function
from atoll.candidate import content_hash

DEFAULT_FEATURES = ("complexity", "diversity")

type Feature = Callable[[function.Function], float]


def get_complexity(fn: function.Function) -> float:
    """Returns the length in characters, as in OpenEvolve."""
    return float(len(str(fn.skeleton())))


class Diversity:
    """Mean distance of a program to the first distinct programs, from 0 to 1.

    The distance is the share of lines that two programs do not have in common. There are at most `size` references.
    The value of a program never changes, so it stays in its cell, and a resumed run computes the same.
    """

    def __init__(self, size: int = 20) -> None:
        self._size = size
        self._references: list[frozenset[str]] = []
        self._distances: dict[str, float] = {}

    def __call__(self, fn: function.Function) -> float:
        text = str(fn.skeleton())
        key = content_hash(text)
        if key not in self._distances:
            lines = frozenset(filter(None, map(str.strip, text.splitlines())))
            self._distances[key] = self._mean_distance(lines)
            if len(self._references) < self._size and lines not in self._references:
                self._references.append(lines)
        return self._distances[key]

    def _mean_distance(self, lines: frozenset[str]) -> float:
        return sum(compute_distance(lines, other) for other in self._references) / max(1, len(self._references))


def compute_distance(lines: frozenset[str], other_lines: frozenset[str]) -> float:
    """Returns the share of lines that only one of two programs has."""
    shared_count = len(lines & other_lines)
    total_count = len(lines) + len(other_lines) - shared_count
    return 1.0 - shared_count / total_count if total_count else 0.0


def make_features(names: Sequence[str], reference_size: int = 20) -> Sequence[Feature]:
    """Returns the feature functions; each island needs its own, with its own references."""
    builtin_features: dict[str, Feature] = {"complexity": get_complexity, "score": function.get_fitness}
    if "diversity" in names:
        builtin_features["diversity"] = Diversity(reference_size)
    return [_make_feature(name, builtin_features.get(name)) for name in names]


def _make_feature(name: str, fallback: Feature | None) -> Feature:
    """Returns the evaluator's metric of that name, or our own feature, or NaN, which has its own cell."""

    def measure(fn: function.Function) -> float:
        metrics = fn.evaluation.metrics if fn.evaluation else {}
        if name in metrics:
            return metrics[name]
        return fallback(fn) if fallback else math.nan

    return measure

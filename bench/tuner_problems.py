"""Problems of the tuner benchmark: six for the result, and others on which its rules are chosen.

All problems are minimized. Do not tune by looking at `TEST`; use `DEVELOPMENT`.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from atoll.mutation.tuner import Tunable
from examples.binpacking import task


class Problem(NamedTuple):
    """Function to minimize."""

    fn: Callable[..., float]
    space: Sequence[Tunable]


def branin(x: float, y: float) -> float:
    bent = y - 5.1 / (4 * math.pi**2) * x * x + 5 / math.pi * x - 6
    return bent**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10


_STEEP = np.array(
    [[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]]
)
_TOPS = 1e-4 * np.array([
    [1312, 1696, 5569, 124, 8283, 5886], [2329, 4135, 8307, 3736, 1004, 9991], [2348, 1451, 3522, 2883, 3047, 6650],
    [4047, 8828, 8732, 5743, 1091, 381],
])  # fmt: skip


def hartmann(*values: float) -> float:
    return -float(np.array([1, 1.2, 3, 3.2]) @ np.exp(-(_STEEP * (np.array(values) - _TOPS) ** 2).sum(1)))


def rosenbrock(*values: float) -> float:
    x = np.array(values)
    return float((100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum())


def ackley(*values: float) -> float:
    """Returns Ackley's function, shifted so that its minimum is neither at the start nor in the middle."""
    x = np.array(values) - 3.3
    hills = math.exp(float(np.cos(2 * np.pi * x).mean()))
    return -20 * math.exp(-0.2 * math.sqrt(float((x**2).mean()))) - hills + 20 + math.e


_LISTS = task.uniform(seed=5, count=6, num_items=250)[0]


def packing(tight: float, wide: float, level: float, slope: float, power: float) -> float:
    """Returns the excess of a packing rule: tight bins first, then those that stay wide, then the rest."""

    def rule(item: float, bins: Any) -> Any:
        gap = bins - item
        return np.where(gap <= tight, -(gap**power), np.where(gap >= wide, level - slope * gap, -100 - gap))

    return -task.evaluate(rule, _LISTS)


def _jobs(seed: int, count: int = 60) -> Any:
    rng = np.random.default_rng(seed)
    times, weights = rng.integers(1, 100, count).astype(float), rng.integers(1, 10, count).astype(float)
    return times, weights, rng.uniform(0.1, 0.9, count) * times.sum()


_SHOPS = [_jobs(seed) for seed in range(4)]


def dispatching(patience: float, urgency: float, weight_power: float, time_power: float) -> float:
    """Returns the weighted tardiness of one machine that takes the job with the highest index next (after ATC)."""
    total = 0.0
    for times, weights, due in _SHOPS:
        left, now, mean = np.ones(len(times), dtype=bool), 0.0, times.mean()
        for _ in range(len(times)):
            slack = np.maximum(due - times - now, 0.0)
            index = weights**weight_power / times**time_power * np.exp(-urgency * slack / (patience * mean))
            job = int(np.argmax(np.where(left, index, -1.0)))
            left[job] = False
            now += times[job]
            total += weights[job] * max(now - due[job], 0.0)
    return total


def levy(*values: float) -> float:
    w = 1 + (np.array(values) - 1) / 4
    middle = ((w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2)).sum()
    return float(np.sin(np.pi * w[0]) ** 2 + middle + (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2))


def styblinski(*values: float) -> float:
    x = np.array(values)
    return float((x**4 - 16 * x**2 + 5 * x).sum() / 2)


_FOXHOLES = np.array([[4, 1, 8, 6, 3, 2, 5, 8, 6, 7], [4, 1, 8, 6, 7, 9, 3, 1, 2, 3.6]] * 2)
_WIDTHS = np.array([1, 2, 2, 4, 4, 6, 3, 7, 5, 5]) / 10


def shekel(*values: float) -> float:
    return -float((1 / (((np.array(values)[:, None] - _FOXHOLES) ** 2).sum(0) + _WIDTHS)).sum())


def michalewicz(*values: float) -> float:
    x = np.array(values)
    return -float((np.sin(x) * np.sin(np.arange(1, len(x) + 1) * x**2 / np.pi) ** 20).sum())


def griewank(*values: float) -> float:
    x = np.array(values) - 17
    return float((x**2).sum() / 4000 - np.prod(np.cos(x / np.sqrt(np.arange(1, len(x) + 1)))) + 1)


def camel(x: float, y: float) -> float:
    return (4 - 2.1 * x * x + x**4 / 3) * x * x + x * y + (4 * y * y - 4) * y * y


def cigar(*values: float) -> float:
    """Returns a long valley, rotated so that no coordinate lies along it."""
    x = np.array(values) - np.linspace(-2, 2, len(values))
    along = x.sum() / math.sqrt(len(x))
    return float((x @ x - along**2) * 100 + along**2)


_RNG = np.random.default_rng(20)
_MIDDLES, _NARROW = _RNG.random((5, 6)), 10 ** _RNG.uniform(0.5, 1.4, (5, 6))


def mounds(*values: float) -> float:
    """Returns minus the sum of five hills of different heights, each stretched in another direction."""
    hills = np.exp(-(_NARROW * (np.array(values) - _MIDDLES) ** 2).sum(1))
    return -float(np.array([3, 2.9, 2.5, 2, 1]) @ hills)


def _goods(seed: int, count: int = 80) -> Any:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(5, 60, (count, 3)).astype(float)
    return sizes, sizes.mean(1) + rng.integers(0, 25, count), sizes.sum(0) * 0.35


_SACKS = [_goods(seed) for seed in range(5)]


def filling(power: float, first: float, second: float, third: float, scarcity: float) -> float:
    """Returns minus the value of knapsacks with three limits, filled by a ratio that learns which limit is scarce."""
    total = 0.0
    for sizes, values, limits in _SACKS:
        used, left = np.zeros(3), np.ones(len(values), dtype=bool)
        while left.any():
            pressure = np.array([first, second, third]) * (1 + scarcity * used / limits)
            ratio = values**power / (sizes @ pressure + 1e-9)
            item = int(np.argmax(np.where(left, ratio, -1.0)))
            left[item] = False
            if (used + sizes[item] <= limits).all():
                used, total = used + sizes[item], total + values[item]
    return -total


_TOWNS = [np.random.default_rng(seed).random((45, 2)) for seed in range(3)]


def touring(depot: float, spread: float, ahead: float) -> float:
    """Returns the length of tours that take the town with the lowest index next: near, far from home, near others."""
    total = 0.0
    for towns in _TOWNS:
        gaps = np.linalg.norm(towns[:, None] - towns[None], axis=2)
        left, at = np.ones(len(towns), dtype=bool), 0
        left[0] = False
        while left.any():
            lonely = (gaps * left).sum(1) / left.sum()
            index = gaps[at] - depot * gaps[0] - spread * lonely + ahead * np.where(left, gaps, 9.0).min(0)
            town = int(np.argmin(np.where(left, index, np.inf)))
            left[town] = False
            total, at = total + gaps[at, town], town
        total += gaps[at, 0]
    return total


_TARGET = np.random.default_rng(3).normal(size=(40, 3))


def annealing(heat: float, cooling: float, step: float, growth: float) -> float:
    """Returns the result of a fixed annealing run, which is jagged in its constants."""
    rng = np.random.default_rng(11)
    x = np.zeros(3)
    worth = best = 1e9
    for turn in range(150):
        tried = x + step * growth ** (turn / 50) * rng.normal(size=3)
        cost = float(np.abs(np.sin(3 * (_TARGET - tried))).sum() + 2 * (tried**2).sum())
        if cost < worth or rng.random() < math.exp(-(cost - worth) / (heat * cooling**turn + 1e-9)):
            x, worth = tried, cost
        best = min(best, worth)
    return best


def _cube(count: int, start: float, low: float, high: float) -> Sequence[Tunable]:
    return [Tunable(f"x{index}", start, low, high) for index in range(count)]


TEST: Mapping[str, Problem] = {
    "Branin, 2": Problem(branin, [Tunable("x", 2.5, -5, 10), Tunable("y", 7.5, 0, 15)]),
    "Hartmann, 6": Problem(hartmann, _cube(6, 0.5, 0, 1)),
    "Rosenbrock, 10": Problem(rosenbrock, _cube(10, -1.2, -2.5, 2.5)),
    "Ackley, 20": Problem(ackley, _cube(20, 0.0, -10, 10)),
    "packing rule, 5": Problem(packing, [
        Tunable("tight", 2.0, 0, 40), Tunable("wide", 50.0, 10, 100), Tunable("level", 0.0, -50, 50),
        Tunable("slope", 1.0, -2, 2), Tunable("power", 1.0, 0.1, 3),
    ]),
    "dispatching rule, 4": Problem(dispatching, [
        Tunable("patience", 1.0, 0.1, 10), Tunable("urgency", 1.0, 0, 5), Tunable("weight_power", 1.0, 0, 3),
        Tunable("time_power", 1.0, 0, 3),
    ]),
}  # fmt: skip

DEVELOPMENT: Mapping[str, Problem] = {
    "camel, 2": Problem(camel, [Tunable("x", 1.5, -3, 3), Tunable("y", 1.5, -2, 2)]),
    "Shekel, 4": Problem(shekel, _cube(4, 5.0, 0, 10)),
    "Levy, 4": Problem(levy, _cube(4, -4.0, -10, 10)),
    "Michalewicz, 5": Problem(michalewicz, _cube(5, 1.0, 0, math.pi)),
    "Styblinski-Tang, 6": Problem(styblinski, _cube(6, 0.5, -5, 5)),
    "mounds, 6": Problem(mounds, _cube(6, 0.5, 0, 1)),
    "Griewank, 8": Problem(griewank, _cube(8, 0.0, -60, 60)),
    "cigar, 15": Problem(cigar, _cube(15, 0.0, -5, 5)),
    "filling rule, 5": Problem(filling, [
        Tunable("power", 1.0, 0, 3), Tunable("first", 1.0, 0, 2), Tunable("second", 1.0, 0, 2),
        Tunable("third", 1.0, 0, 2), Tunable("scarcity", 0.0, -1, 5),
    ]),
    "touring rule, 3": Problem(touring, [
        Tunable("depot", 0.0, -1, 1), Tunable("spread", 0.0, -1, 2), Tunable("ahead", 0.0, -1, 2),
    ]),
    "annealing, 4": Problem(annealing, [
        Tunable("heat", 1.0, 0, 20), Tunable("cooling", 0.95, 0.5, 1), Tunable("step", 0.5, 0.01, 3),
        Tunable("growth", 1.0, 0.1, 2),
    ]),
}  # fmt: skip

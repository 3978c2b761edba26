"""Doubt about a law: noise of the data, error bars of constants, laws that are nearly as good, and extrapolation."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from atoll.llmsr.laws import constants, constraints, table
from atoll.llmsr.laws.tree import Array
from atoll.llmsr.laws.view_law import AnyLaw

_BEYOND = 0.5  # widths of the data beyond both ends in which laws are compared
_NUM_STEPS = 81
_VISIBLE = 3.0  # times the noise: a larger difference of two laws can be measured
_MIN_VISIBLE = 0.01  # of the deviation of the target, if the data has no noise
EXTRAPOLATION_MARGIN = 0.1  # widths of the data; rows that were left out at random are often a little outside


class RunnerUp(NamedTuple):
    """Law that is nearly as good as the recommended one, and the measurement that would decide."""

    law: AnyLaw
    error: float
    decide: str


class Doubt(NamedTuple):
    """Doubt about a law.

    Attributes:
        noise: Estimated standard deviation of the noise of the target, if the law is right.
        constants: Constants in the order of the law's tree, each with its standard error.
        runners_up: Other laws, best first.
    """

    noise: float
    constants: list[tuple[float, float]]
    runners_up: list[RunnerUp]


def describe_doubt(law: AnyLaw, error: float, others: Sequence[tuple[AnyLaw, float]], train: table.Table) -> Doubt:
    """Returns the doubt about a law. The others are its runners-up with their errors, best first."""
    law_tree = constraints.to_tree(law, len(train.names))
    bars = [] if law_tree is None else constants.compute_error_bars(law_tree, train.rows)
    freedom = max(train.num_independent - len(bars), 1)
    noise = math.sqrt(error * float(train.y.var()) * train.num_independent / freedom)
    runners_up = [
        RunnerUp(other, other_error, find_measurement(law, other, train, noise)) for other, other_error in others
    ]
    return Doubt(noise, bars, runners_up)


def find_measurement(law: AnyLaw, other: AnyLaw, train: table.Table, noise: float) -> str:
    """Returns in words where a measurement would tell two laws apart most easily."""
    visible = max(_VISIBLE * noise, _MIN_VISIBLE * float(train.y.std()))
    best: tuple[float, str] | None = None
    for index, name in enumerate(train.names):
        low, high = float(train.x[:, index].min()), float(train.x[:, index].max())
        width = high - low
        values = np.linspace(low - _BEYOND * width, high + _BEYOND * width, _NUM_STEPS)
        if low >= 0.0:
            values = values[values >= 0.1 * low]
        differs = np.abs(_sweep(law, train, index, values) - _sweep(other, train, index, values)).max(axis=0) > visible
        for value in values[differs]:
            distance = max(value - high, low - value, 0.0) / width
            side = "above" if value > high else "below" if value < low else "near"
            if best is None or distance < best[0]:
                best = distance, f"measure {name} {side} {value:.3g} to decide"
    return best[1] if best else "the two agree within the noise, also beyond the data"


def _sweep(law: AnyLaw, train: table.Table, index: int, values: Array) -> Array:
    """Returns the values of a law along one variable, with the others at three quantiles: quantiles by values."""
    rows = []
    for share in (0.25, 0.5, 0.75):
        columns = np.repeat(np.quantile(train.x, share, axis=0)[:, None], len(values), axis=1)
        columns[index] = values
        rows.append(law.predict(columns))
    return np.array(rows)


def find_extrapolation(x: Array, train: table.Table) -> dict[str, float]:
    """Returns the share of rows outside of the training range, for every variable that has some."""
    low, high = train.x.min(axis=0), train.x.max(axis=0)
    margin = EXTRAPOLATION_MARGIN * (high - low)
    is_outside = (x < low - margin) | (x > high + margin)
    shares = is_outside.mean(axis=0).tolist()
    return {name: share for name, share in zip(train.names, shares, strict=True) if share}

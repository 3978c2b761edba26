"""How good fear was: scores of forecasts against what happened, and the tail of the returns."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Bin(NamedTuple):
    """Forecasts that said about the same: their mean, how often damage came, and how many they are."""

    forecast: float
    happened: float
    size: int


class Calibration(NamedTuple):
    """What forecasts were worth.

    Attributes:
        brier: Mean squared error.
        brier_skill: 1 minus that over the one of always saying the base rate; 0 is worthless, 1 perfect.
        auroc: The chance that a forecast before damage was higher than one before none.
        precision: The share of forecasts of a half and more that came true.
        ece: Expected calibration error.
    """

    size: int
    base_rate: float
    brier: float
    brier_skill: float
    log_loss: float
    auroc: float
    precision: float
    ece: float
    bins: tuple[Bin, ...]


NO_FORECASTS = Calibration(0, 0.0, 0.0, 0.0, 0.0, 0.5, 0.0, 0.0, ())


def calibration(said: Sequence[tuple[float, bool]], num_bins: int = 10) -> Calibration:
    """Measures forecasts against what happened."""
    if not said:
        return NO_FORECASTS
    count = len(said)
    base = sum(happened for _, happened in said) / count
    brier = sum((forecast - happened) ** 2 for forecast, happened in said) / count
    spread = base * (1 - base)
    bins = _bins(said, num_bins)
    high = [happened for forecast, happened in said if forecast >= 0.5]
    loss = -sum(math.log(max(1e-6, forecast if happened else 1 - forecast)) for forecast, happened in said) / count
    return Calibration(
        count,
        base,
        brier,
        1 - brier / spread if spread > 0 else 0.0,
        loss,
        auroc(said),
        sum(high) / len(high) if high else 0.0,
        sum(each.size * abs(each.forecast - each.happened) for each in bins) / count,
        bins,
    )


def _bins(said: Sequence[tuple[float, bool]], num_bins: int) -> tuple[Bin, ...]:
    grouped: dict[int, list[tuple[float, bool]]] = {}
    for each in said:
        grouped.setdefault(min(num_bins - 1, int(each[0] * num_bins)), []).append(each)
    found = []
    for _, group in sorted(grouped.items()):
        size = len(group)
        found.append(Bin(sum(f for f, _ in group) / size, sum(h for _, h in group) / size, size))
    return tuple(found)


def auroc(said: Sequence[tuple[float, bool]]) -> float:
    """Returns the area under the receiver's curve, ties counted half."""
    ordered = sorted(said)
    positives = sum(happened for _, happened in ordered)
    negatives = len(ordered) - positives
    if not positives or not negatives:
        return 0.5
    ranks, place = 0.0, 0
    while place < len(ordered):
        end = place
        while end < len(ordered) and ordered[end][0] == ordered[place][0]:
            end += 1
        middle = (place + 1 + end) / 2
        ranks += middle * sum(happened for _, happened in ordered[place:end])
        place = end
    return (ranks - positives * (positives + 1) / 2) / (positives * negatives)


def cvar(returns: Sequence[float], alpha: float = 0.1) -> float:
    """Returns the mean of the worst share of returns, at least one of them."""
    if not returns:
        return 0.0
    worst = sorted(returns)[: max(1, int(alpha * len(returns)))]
    return sum(worst) / len(worst)

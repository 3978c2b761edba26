"""Quality of forecasts (Brier score, calibration, AUROC) and tail risk of returns."""

import math
from collections.abc import Sequence
from typing import NamedTuple


class Bin(NamedTuple):
    """Forecasts of similar value: their mean, the frequency of damage, and their number."""

    forecast: float
    happened: float
    size: int


class Calibration(NamedTuple):
    """Quality of a set of forecasts.

    Attributes:
        brier: Mean squared error.
        brier_skill: 1 minus the ratio to the error of always forecasting the base rate; 1 is perfect, 0 is useless.
        auroc: Probability that a forecast before damage is higher than one before no damage.
        precision: Share of forecasts of at least 0.5 that came true.
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


def compute_calibration(forecasts: Sequence[tuple[float, bool]], num_bins: int = 10) -> Calibration:
    if not forecasts:
        return NO_FORECASTS
    count = len(forecasts)
    base_rate = sum(happened for _, happened in forecasts) / count
    brier = sum((forecast - happened) ** 2 for forecast, happened in forecasts) / count
    base_variance = base_rate * (1 - base_rate)
    bins = _make_bins(forecasts, num_bins)
    high_outcomes = [happened for forecast, happened in forecasts if forecast >= 0.5]
    log_loss = (
        -sum(math.log(max(1e-6, forecast if happened else 1 - forecast)) for forecast, happened in forecasts) / count
    )
    return Calibration(
        count,
        base_rate,
        brier,
        1 - brier / base_variance if base_variance > 0 else 0.0,
        log_loss,
        compute_auroc(forecasts),
        sum(high_outcomes) / len(high_outcomes) if high_outcomes else 0.0,
        sum(item.size * abs(item.forecast - item.happened) for item in bins) / count,
        bins,
    )


def _make_bins(forecasts: Sequence[tuple[float, bool]], num_bins: int) -> tuple[Bin, ...]:
    grouped: dict[int, list[tuple[float, bool]]] = {}
    for pair in forecasts:
        grouped.setdefault(min(num_bins - 1, int(pair[0] * num_bins)), []).append(pair)
    bins = []
    for _, group in sorted(grouped.items()):
        size = len(group)
        bins.append(Bin(sum(f for f, _ in group) / size, sum(h for _, h in group) / size, size))
    return tuple(bins)


def compute_auroc(forecasts: Sequence[tuple[float, bool]]) -> float:
    """Returns the area under the ROC curve; ties count half."""
    ordered = sorted(forecasts)
    positives = sum(happened for _, happened in ordered)
    negatives = len(ordered) - positives
    if not positives or not negatives:
        return 0.5
    rank_sum, start = 0.0, 0
    while start < len(ordered):
        end = start
        while end < len(ordered) and ordered[end][0] == ordered[start][0]:
            end += 1
        mean_rank = (start + 1 + end) / 2
        rank_sum += mean_rank * sum(happened for _, happened in ordered[start:end])
        start = end
    return (rank_sum - positives * (positives + 1) / 2) / (positives * negatives)


def compute_cvar(returns: Sequence[float], alpha: float = 0.1) -> float:
    """Returns the mean of the worst share of returns, at least one of them."""
    if not returns:
        return 0.0
    worst = sorted(returns)[: max(1, int(alpha * len(returns)))]
    return sum(worst) / len(worst)

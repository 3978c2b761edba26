"""Last value and half of the last year's season."""

# EVOLVE-BLOCK-START
import numpy as np


def forecast(series, steps):
    """Returns the next `steps` values of a series of monthly values."""
    level = series[-1]
    year_mean = np.mean(series[-12:])
    result = np.empty(steps)
    for step in range(steps):
        season = series[len(series) - 12 + step % 12] - year_mean
        result[step] = level + 0.5 * season
    return result


# EVOLVE-BLOCK-END

"""How many digits a number needs."""

import math


def find_roundest(low: float, high: float) -> float:
    """Returns the number with the fewest digits between two others, of several such the nearest to their middle.

    roundest(0.2613, 0.3391) == 0.3
    """
    if low <= 0 <= high:
        return 0.0
    if low == high or not (math.isfinite(low) and math.isfinite(high)):
        return low
    middle = (low + high) / 2
    for power in range(math.floor(math.log10(max(abs(low), abs(high)))), -320, -1):
        candidate = _find_multiple(middle, power)
        if low <= candidate <= high:
            return candidate
    return middle


def count_digits(value: float) -> int:
    """Returns how many digits a number is written with, zeros at its ends left out."""
    return len(f"{abs(value):.12e}".partition("e")[0].replace(".", "").strip("0"))


def round_to_digits(value: float, digits: int) -> float:
    """Returns a number with so many digits at most."""
    return float(f"{value:.{digits - 1}e}")


def _find_multiple(value: float, power: int) -> float:
    """Returns the multiple of a power of ten that is nearest; read from text, since 3 * 0.1 is not 0.3."""
    return float(f"{round(value / 10.0**power)}e{power}")

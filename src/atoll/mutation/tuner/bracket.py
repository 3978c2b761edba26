"""The search for one number: probes across its range, then ever narrower brackets around the best of them."""

import math
from collections.abc import Sequence

from atoll.mutation.tuner.space import Tunable

_PROBES = (0.5, 0.12, 0.88, 0.3, 0.7)  # where to look first, beside the start
_GOLDEN = (3 - math.sqrt(5)) / 2
_MIN_BRACKET = 1e-5


def choose_next_unit(tunable: Tunable, observations: Sequence[tuple[float, float]]) -> float | None:
    """Returns where to look next between 0 and 1, or None when nothing is left to find.

    A function of what is known: pairs of place and score, of which the highest is sought.
    """
    points = sorted(observations)
    positions = [position for position, _ in points]
    for probe in _PROBES:
        min_distance = 0.08 if math.isinf(tunable.num_values) else 0.5 / tunable.num_values
        if len(points) <= len(_PROBES) and _is_new(tunable, probe, positions) and _compute_distance(probe, positions) > min_distance:
            return _snap(tunable, probe)
    best_index = max(range(len(points)), key=lambda index: points[index][1])
    low = positions[best_index - 1] if best_index > 0 else 0.0
    high = positions[best_index + 1] if best_index + 1 < len(positions) else 1.0
    for guess in (_find_vertex(points, best_index), _split_golden(low, positions[best_index], high), (low + positions[best_index]) / 2, (positions[best_index] + high) / 2):
        if guess is not None and _is_new(tunable, guess, positions) and _compute_distance(guess, positions) > _MIN_BRACKET:
            return _snap(tunable, guess)
    return None


def _find_vertex(points: Sequence[tuple[float, float]], index: int) -> float | None:
    """Returns the top of the parabola through the best point and its neighbours."""
    if not 0 < index < len(points) - 1:
        return None
    (a, fa), (b, fb), (c, fc) = points[index - 1 : index + 2]
    denominator = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    if denominator == 0:
        return None
    vertex = b - 0.5 * ((b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)) / denominator
    # Too near to a known place it teaches nothing, and a lopsided bracket never closes by parabolas alone.
    is_useful = a < vertex < c and abs(vertex - b) > 0.01 * (c - a) and min(b - a, c - b) > 0.1 * (c - a)
    return vertex if is_useful else None


def _split_golden(low: float, middle: float, high: float) -> float:
    """Returns a place in the wider half of a bracket."""
    return middle + _GOLDEN * (high - middle) if high - middle > middle - low else middle - _GOLDEN * (middle - low)


def _snap(tunable: Tunable, unit: float) -> float:
    return tunable.to_unit(tunable.from_unit(unit))


def _is_new(tunable: Tunable, unit: float, positions: Sequence[float]) -> bool:
    return _compute_distance(_snap(tunable, unit), positions) > 1e-12


def _compute_distance(unit: float, positions: Sequence[float]) -> float:
    return min((abs(unit - position) for position in positions), default=math.inf)

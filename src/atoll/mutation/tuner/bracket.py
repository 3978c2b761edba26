"""The search for one number: probes across its range, then ever narrower brackets around the best of them."""

import math
from collections.abc import Sequence

from atoll.mutation.tuner.space import Tunable

_PROBES = (0.5, 0.12, 0.88, 0.3, 0.7)  # where to look first, beside the start
_GOLDEN = (3 - math.sqrt(5)) / 2
_NARROW = 1e-5


def next_unit(tunable: Tunable, known: Sequence[tuple[float, float]]) -> float | None:
    """Returns where to look next between 0 and 1, or None when nothing is left to find.

    A function of what is known: pairs of place and score, of which the highest is sought.
    """
    points = sorted(known)
    places = [place for place, _ in points]
    for probe in _PROBES:
        wide = 0.08 if math.isinf(tunable.num_values) else 0.5 / tunable.num_values
        if len(points) <= len(_PROBES) and _is_new(tunable, probe, places) and _distance(probe, places) > wide:
            return _snapped(tunable, probe)
    at = max(range(len(points)), key=lambda index: points[index][1])
    low = places[at - 1] if at > 0 else 0.0
    high = places[at + 1] if at + 1 < len(places) else 1.0
    for guess in (_vertex(points, at), _golden(low, places[at], high), (low + places[at]) / 2, (places[at] + high) / 2):
        if guess is not None and _is_new(tunable, guess, places) and _distance(guess, places) > _NARROW:
            return _snapped(tunable, guess)
    return None


def _vertex(points: Sequence[tuple[float, float]], at: int) -> float | None:
    """Returns the top of the parabola through the best point and its neighbours."""
    if not 0 < at < len(points) - 1:
        return None
    (a, fa), (b, fb), (c, fc) = points[at - 1 : at + 2]
    below = (b - a) * (fb - fc) - (b - c) * (fb - fa)
    if below == 0:
        return None
    top = b - 0.5 * ((b - a) ** 2 * (fb - fc) - (b - c) ** 2 * (fb - fa)) / below
    # Too near to a known place it teaches nothing, and a lopsided bracket never closes by parabolas alone.
    is_useful = a < top < c and abs(top - b) > 0.01 * (c - a) and min(b - a, c - b) > 0.1 * (c - a)
    return top if is_useful else None


def _golden(low: float, middle: float, high: float) -> float:
    """Returns a place in the wider half of a bracket."""
    return middle + _GOLDEN * (high - middle) if high - middle > middle - low else middle - _GOLDEN * (middle - low)


def _snapped(tunable: Tunable, unit: float) -> float:
    return tunable.to_unit(tunable.from_unit(unit))


def _is_new(tunable: Tunable, unit: float, places: Sequence[float]) -> bool:
    return _distance(_snapped(tunable, unit), places) > 1e-12


def _distance(unit: float, places: Sequence[float]) -> float:
    return min((abs(unit - place) for place in places), default=math.inf)

"""The factors that a search begins with: every kind of function, its constants on grids in the scale of the data.

A grid need only be fine enough for the fit to slide into the right valley: waves so that neighbours differ by less
than a quarter turn over the data, bumps and steps by widths and places.
"""

import itertools
from collections.abc import Iterator, Sequence

import numpy as np

from atoll.llmsr.laws import law
from atoll.llmsr.laws.domain import Domain
from atoll.llmsr.laws.factor import ABSOLUTE, Array, Columns, Factor

_QUANTILES = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
_WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # of bumps and steps: the half range of the data over this
_RATES = (0.3, 1.0, 2.0, 4.0, 8.0)
_SATURATIONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_MOST_PAIRED = 8  # variables: with more, pairs inside a function would be most of all factors
_NARROWEST = 1e-60
_SLOWEST, _NUM_WAVES, _NUM_SHIFTED_WAVES = 0.4 * np.pi, 48, 12


def factors(columns: Columns, domain: Domain) -> list[Factor]:
    """Returns all factors with constants of their own that are safe to use."""
    made = itertools.chain.from_iterable(_of_variable(place, values) for place, values in enumerate(columns))
    pairs = itertools.combinations(range(len(columns)), 2) if len(columns) <= _MOST_PAIRED else ()
    joint = itertools.chain.from_iterable(_of_pair(pair, columns[pair[0]] * columns[pair[1]]) for pair in pairs)
    return [factor for factor in itertools.chain(made, joint) if domain.is_safe(factor) and domain.is_telling(factor)]


def powers(num_variables: int, domain: Domain) -> list[Factor]:
    """Returns all factors without constants: powers, and where a variable stays positive also roots and logarithms."""
    made = [Factor("pow", (each,), float(power)) for each in range(num_variables) for power in (1, 2, 3, 4)]
    for each in range(num_variables):
        made += [Factor("pow", (each,), power) for power in (-2.0, -1.0, 0.5)] + [Factor("ln", (each,))]
    return [factor for factor in made if domain.is_safe(factor)]


def monomials(num_variables: int, degree: int) -> list[law.Term]:
    """Returns all products of variables up to a degree, the constant first."""
    found: list[law.Term] = [()]
    for total in range(1, degree + 1):
        for chosen in itertools.combinations_with_replacement(range(num_variables), total):
            found.append(tuple(Factor("pow", (each,), float(chosen.count(each))) for each in sorted(set(chosen))))
    return found


def _of_variable(place: int, values: Array) -> Iterator[Factor]:
    at, width = (place,), float(values.max() - values.min())
    if not _NARROWEST < width < 1.0 / _NARROWEST:
        return  # constant, or in units in which no power could be computed: powers of it remain
    places = [float(each) for each in np.quantile(values, _QUANTILES)]
    yield from _waves(at, float(values.min()), width)
    for rate, sign in itertools.product(_RATES, (1.0, -1.0)):
        yield Factor("exp", at, theta=(sign * 2.0 * rate / width,))
    for narrow in _WIDTHS:
        yield from _bumps(at, 2.0 * narrow / width, places)
    largest = float(np.abs(values).max())
    for rate in _SATURATIONS:
        for fn, power in (("rec", 1.0), ("log", 1.0), ("rec", ABSOLUTE)):
            yield Factor(fn, at, power, theta=(rate / largest,))
    for each in places:
        yield Factor("abs", at, theta=(each,))


def _waves(at: tuple[int, ...], start: float, width: float) -> Iterator[Factor]:
    for turn in range(1, _NUM_WAVES + 1):
        for fn in ("sin", "cos"):
            yield Factor(fn, at, theta=(turn * _SLOWEST / width,))
    for turn in range(1, _NUM_SHIFTED_WAVES + 1):
        rate = turn * 0.5 * np.pi / width
        for quarter in range(4):
            place = start + quarter * 0.25 * np.pi / rate
            yield Factor("sin", at, 1.0, True, 1, (rate, place))
            yield Factor("sin", at, 1.0, True, 2, (rate, place))


def _bumps(at: tuple[int, ...], scale: float, places: Sequence[float]) -> Iterator[Factor]:
    kinds = (
        ("exp", 2.0, -(scale**2)),
        ("exp", ABSOLUTE, -scale),
        ("tanh", 1.0, scale),
        ("rec", 2.0, scale**2),
        ("rec", 4.0, scale**4),
        ("rec", ABSOLUTE, scale),
    )
    for fn, power, rate in kinds:
        if (fn, power) != ("rec", ABSOLUTE):
            yield Factor(fn, at, power, theta=(rate,))
        for place in places:
            yield Factor(fn, at, power, True, 1, (rate, place))


def _of_pair(at: tuple[int, int], product: Array) -> Iterator[Factor]:
    largest = float(np.abs(product).max()) or 1.0
    for rate in (0.5, 1.0, 2.0, 4.0, 8.0):
        for fn in ("sin", "cos", "exp", "rec", "tanh"):
            yield Factor(fn, at, theta=(rate / largest,))
        yield Factor("exp", at, theta=(-rate / largest,))

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
_MAX_PAIRED_VARIABLES = 8  # variables: with more, pairs inside a function would be most of all factors
_MIN_WIDTH = 1e-60
_BASE_FREQUENCY, _NUM_WAVES, _NUM_SHIFTED_WAVES = 0.4 * np.pi, 48, 12


def make_factors(columns: Columns, domain: Domain) -> list[Factor]:
    """Returns all factors with constants of their own that are safe to use."""
    single_factors = itertools.chain.from_iterable(_iter_variable_factors(variable, values) for variable, values in enumerate(columns))
    pairs = itertools.combinations(range(len(columns)), 2) if len(columns) <= _MAX_PAIRED_VARIABLES else ()
    pair_factors = itertools.chain.from_iterable(_iter_pair_factors(pair, columns[pair[0]] * columns[pair[1]]) for pair in pairs)
    return [factor for factor in itertools.chain(single_factors, pair_factors) if domain.is_safe(factor) and domain.is_identifiable(factor)]


def make_powers(num_variables: int, domain: Domain) -> list[Factor]:
    """Returns all factors without constants: powers, and where a variable stays positive also roots and logarithms."""
    power_factors = [Factor("pow", (variable,), float(power)) for variable in range(num_variables) for power in (1, 2, 3, 4)]
    for each in range(num_variables):
        power_factors += [Factor("pow", (each,), power) for power in (-2.0, -1.0, 0.5)] + [Factor("ln", (each,))]
    return [factor for factor in power_factors if domain.is_safe(factor)]


def make_monomials(num_variables: int, degree: int) -> list[law.Term]:
    """Returns all products of variables up to a degree, the constant first."""
    terms: list[law.Term] = [()]
    for total in range(1, degree + 1):
        for combination in itertools.combinations_with_replacement(range(num_variables), total):
            terms.append(tuple(Factor("pow", (variable,), float(combination.count(variable))) for variable in sorted(set(combination))))
    return terms


def _iter_variable_factors(variable: int, values: Array) -> Iterator[Factor]:
    variables, width = (variable,), float(values.max() - values.min())
    if not _MIN_WIDTH < width < 1.0 / _MIN_WIDTH:
        return  # constant, or in units in which no power could be computed: powers of it remain
    shifts = [float(quantile) for quantile in np.quantile(values, _QUANTILES)]
    yield from _iter_waves(variables, float(values.min()), width)
    for rate, sign in itertools.product(_RATES, (1.0, -1.0)):
        yield Factor("exp", variables, theta=(sign * 2.0 * rate / width,))
    for sharpness in _WIDTHS:
        yield from _iter_bumps(variables, 2.0 * sharpness / width, shifts)
    largest = float(np.abs(values).max())
    for rate in _SATURATIONS:
        for fn, power in (("rec", 1.0), ("log", 1.0), ("rec", ABSOLUTE)):
            yield Factor(fn, variables, power, theta=(rate / largest,))
    for shift in shifts:
        yield Factor("abs", variables, theta=(shift,))


def _iter_waves(variables: tuple[int, ...], start: float, width: float) -> Iterator[Factor]:
    for harmonic in range(1, _NUM_WAVES + 1):
        for fn in ("sin", "cos"):
            yield Factor(fn, variables, theta=(harmonic * _BASE_FREQUENCY / width,))
    for harmonic in range(1, _NUM_SHIFTED_WAVES + 1):
        rate = harmonic * 0.5 * np.pi / width
        for quarter in range(4):
            shift = start + quarter * 0.25 * np.pi / rate
            yield Factor("sin", variables, 1.0, True, 1, (rate, shift))
            yield Factor("sin", variables, 1.0, True, 2, (rate, shift))


def _iter_bumps(variables: tuple[int, ...], scale: float, shifts: Sequence[float]) -> Iterator[Factor]:
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
            yield Factor(fn, variables, power, theta=(rate,))
        for shift in shifts:
            yield Factor(fn, variables, power, True, 1, (rate, shift))


def _iter_pair_factors(variables: tuple[int, int], product: Array) -> Iterator[Factor]:
    largest = float(np.abs(product).max()) or 1.0
    for rate in (0.5, 1.0, 2.0, 4.0, 8.0):
        for fn in ("sin", "cos", "exp", "rec", "tanh"):
            yield Factor(fn, variables, theta=(rate / largest,))
        yield Factor("exp", variables, theta=(-rate / largest,))

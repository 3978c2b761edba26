"""Dictionary of thousands of terms, and matching pursuit: the terms that explain most of a residual."""

import itertools
import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from atoll.llmsr.laws import law, least_squares
from atoll.llmsr.laws.domain import Domain
from atoll.llmsr.laws.law import ABSOLUTE, Array, Columns, Factor, Shape, compute_values

_QUANTILES = (0.05, 0.2, 0.35, 0.5, 0.65, 0.8, 0.95)
_WIDTHS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)  # of bumps and steps: half the range of the data divided by this
_RATES = (0.3, 1.0, 2.0, 4.0, 8.0)
_SATURATIONS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
_MAX_PAIRED_VARIABLES = 8  # with more variables, most factors would be functions of pairs
_MIN_WIDTH = 1e-60
_BASE_FREQUENCY, _NUM_WAVES, _NUM_SHIFTED_WAVES = 0.4 * np.pi, 48, 12


def make_factors(columns: Columns, domain: Domain) -> list[Factor]:
    """Returns all safe factors with constants."""
    factor_lists = [_iter_variable_factors(variable, values) for variable, values in enumerate(columns)]
    pairs = itertools.combinations(range(len(columns)), 2) if len(columns) <= _MAX_PAIRED_VARIABLES else ()
    factor_lists += [_iter_pair_factors(pair, columns[pair[0]] * columns[pair[1]]) for pair in pairs]
    factors = itertools.chain.from_iterable(factor_lists)
    return [factor for factor in factors if domain.is_safe(factor) and domain.is_identifiable(factor)]


def make_powers(num_variables: int, domain: Domain) -> list[Factor]:
    """Returns all factors without constants: powers, and roots and logarithms of positive variables."""
    indices = range(num_variables)
    factors = [Factor("pow", (index,), float(power)) for index in indices for power in (1, 2, 3, 4)]
    for index in indices:
        factors += [Factor("pow", (index,), power) for power in (-2.0, -1.0, 0.5)] + [Factor("ln", (index,))]
    return [factor for factor in factors if domain.is_safe(factor)]


def make_monomials(num_variables: int, degree: int) -> list[law.Term]:
    """Returns all products of variables up to a degree, the constant first."""
    terms: list[law.Term] = [()]
    for total in range(1, degree + 1):
        for combination in itertools.combinations_with_replacement(range(num_variables), total):
            terms.append(
                tuple(
                    Factor("pow", (variable,), float(combination.count(variable)))
                    for variable in sorted(set(combination))
                )
            )
    return terms


def _iter_variable_factors(variable: int, values: Array) -> Iterator[Factor]:
    variables, width = (variable,), float(values.max() - values.min())
    if not _MIN_WIDTH < width < 1.0 / _MIN_WIDTH:
        return  # constant or too large for powers; only plain powers remain
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


_NUM_SINGLE, _NUM_SCALED, _NUM_PAIRED, _NUM_FACTORS = 400, 900, 300, 500
_MIN_INDEPENDENT_SHARE = 1e-9  # minimal independent share of a column beside the terms of the law


class TermGroup(NamedTuple):
    """Terms of one kind with their values at every data point, one term per row."""

    terms: Sequence[law.Term]
    values: Array


class TermDictionary:
    """Terms for one set of rows. Their values are computed once."""

    def __init__(self, rows: least_squares.Rows, domain: Domain) -> None:
        num_variables = len(rows.columns)
        with np.errstate(all="ignore"):
            factors = make_factors(rows.columns, domain)
            values = np.array([compute_values(factor, rows.columns) for factor in factors]).reshape(
                len(factors), len(rows)
            )
            usable = np.isfinite(values).all(axis=1) & (
                values.std(axis=1) > _MIN_INDEPENDENT_SHARE * np.abs(values).max(axis=1)
            )
            self.powers = make_powers(num_variables, domain)
            power_variables = [factor.variables[0] for factor in self.powers]
            self._powers_by_variable = [
                [index for index, variable in enumerate(power_variables) if variable == column]
                for column in range(num_variables)
            ]
            self._power_values = np.array([compute_values(factor, rows.columns) for factor in self.powers])
        self._factors = [factor for factor, is_usable in zip(factors, usable, strict=True) if is_usable]
        self._values = values[usable]
        self._families = _group_by_shape(self._factors)
        degree = 4 if num_variables <= 3 else 3 if num_variables <= 8 else 2
        roots = [(factor,) for factor in self.powers if factor.power not in (1.0, 2.0, 3.0, 4.0) or factor.fn == "ln"]
        self._monomials: list[law.Term] = [*make_monomials(num_variables, degree), *roots]
        with np.errstate(all="ignore"):
            self._monomial_values = law.build_design_matrix(tuple(self._monomials), rows.columns)
        degrees = [sum(abs(factor.power) for factor in term) for term in self._monomials]
        self._low_degree = [index for index, degree in enumerate(degrees) if self._monomials[index] and degree <= 2]

    def draw_terms(self, rng: Random) -> list[TermGroup]:
        """Draws terms of four kinds: products of powers, single factors, factors with powers, pairs of factors."""
        groups = [TermGroup(self._monomials, self._monomial_values)]
        if not self._factors:
            return groups
        single_indices = self._draw_indices(rng, _NUM_SINGLE)
        groups.append(TermGroup([(self._factors[index],) for index in single_indices], self._values[single_indices]))
        factor_indices = self._draw_indices(rng, _NUM_SCALED)
        monomial_indices = rng.choices(self._low_degree, k=len(factor_indices))
        terms = [
            self._monomials[monomial] + (self._factors[index],)
            for monomial, index in zip(monomial_indices, factor_indices, strict=True)
        ]
        groups.append(TermGroup(terms, self._monomial_values[monomial_indices] * self._values[factor_indices]))
        left, right = self._draw_indices(rng, _NUM_PAIRED), self._draw_indices(rng, _NUM_PAIRED)
        rng.shuffle(right)
        pairs: list[law.Term] = [
            (self._factors[first], self._factors[second]) for first, second in zip(left, right, strict=True)
        ]
        return [*groups, TermGroup(pairs, self._values[left] * self._values[right])]

    def draw_products(self, rng: Random, term: law.Term, values: Array) -> list[TermGroup]:
        """Draws factors and multiplies a term by each."""
        indices = self._draw_indices(rng, _NUM_FACTORS) if self._factors else []
        groups = [TermGroup([(*term, factor) for factor in self.powers], self._power_values * values)]
        if indices:
            terms = [(*term, self._factors[index]) for index in indices]
            groups.append(TermGroup(terms, self._values[indices] * values))
            groups.append(self._draw_saturating(rng, term, values))
        return groups

    def _draw_saturating(self, rng: Random, term: law.Term, values: Array) -> TermGroup:
        """Multiplies a term by a factor and a power of its variable, such as x / (1 + x) or x exp(-x)."""
        indices = self._draw_indices(rng, _NUM_PAIRED)
        power_indices = [rng.choice(self._powers_by_variable[self._factors[index].variables[0]]) for index in indices]
        terms = [
            (*term, self.powers[power], self._factors[index])
            for power, index in zip(power_indices, indices, strict=True)
        ]
        return TermGroup(terms, self._power_values[power_indices] * self._values[indices] * values)

    def _draw_indices(self, rng: Random, count: int) -> list[int]:
        """Draws from every family equally. Waves are many only because their grid is fine."""
        per_family = max(1, count // len(self._families))
        drawn = [family if len(family) <= per_family else rng.sample(family, per_family) for family in self._families]
        return [index for indices in drawn for index in indices]


def _group_by_shape(factors: Sequence[Factor]) -> list[list[int]]:
    families: dict[Shape, list[int]] = {}
    for index, factor in enumerate(factors):
        families.setdefault(factor.shape, []).append(index)
    return list(families.values())


def find_best_terms(
    groups: Sequence[TermGroup], solution: least_squares.Solution | None, target: Array, count: int
) -> list[law.Term]:
    """Returns the terms that lower the error most: `count` of each group, each shape once per group."""
    return [term for group in groups for term in _find_best_in_group(group, solution, target, count)]


def pursue(groups: Sequence[TermGroup], target: Array, count: int) -> Iterator[law.Terms]:
    """Yields sums of terms: each adds the term that explains most, then the least useful ones are dropped."""
    terms = [term for group in groups for term in group.terms]
    values = np.concatenate([group.values for group in groups])
    chosen: list[int] = []
    solution: least_squares.Solution | None = None
    for _ in range(count):
        gains = _compute_gains(values, solution, target)
        next_solution = (
            least_squares.solve(values[[*chosen, int(gains.argmax())]], target) if gains.max() > 0.0 else None
        )
        if next_solution is None:
            break
        chosen.append(int(gains.argmax()))
        solution = next_solution
        yield tuple(terms[index] for index in chosen)
    while solution is not None and len(chosen) > 2:
        # The value of a term is the error that its coefficient alone removes: w^2 / inv(A A')_kk.
        inverse = np.linalg.pinv(values[chosen] @ values[chosen].T)
        contributions = solution.weights**2 / np.maximum(np.diag(inverse), math.ulp(0.0))
        del chosen[int(contributions.argmin())]
        solution = least_squares.solve(values[chosen], target)
        yield tuple(terms[index] for index in chosen)


def _find_best_in_group(
    group: TermGroup, solution: least_squares.Solution | None, target: Array, count: int
) -> list[law.Term]:
    gains = _compute_gains(group.values, solution, target)
    best_terms: dict[object, law.Term] = {}
    for index in np.argsort(-gains)[: 12 * count]:
        if len(best_terms) == count or gains[index] <= 0.0:
            break
        term = group.terms[index]
        best_terms.setdefault(law.get_term_shape(term), term)
    return list(best_terms.values())


def _compute_gains(values: Array, solution: least_squares.Solution | None, target: Array) -> Array:
    """Returns the decrease of the sum of squares for each column, with refitted coefficients of the law."""
    with np.errstate(all="ignore"):
        residual = target if solution is None else solution.residual
        norms = np.einsum("ij,ij->i", values, values)
        independent_norms = norms
        if solution is not None:
            projected = values @ solution.basis
            independent_norms = norms - np.einsum("ij,ij->i", projected, projected)
        gains = (values @ residual) ** 2 / np.maximum(independent_norms, math.ulp(0.0))
        usable = np.isfinite(gains) & (independent_norms > _MIN_INDEPENDENT_SHARE * norms)
    return np.where(usable, gains, 0.0)

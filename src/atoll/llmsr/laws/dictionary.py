"""Thousands of terms at hand, and which of them would explain most of what a law leaves (matching pursuit)."""

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from atoll.llmsr.laws import grid, law, projection
from atoll.llmsr.laws.domain import Domain
from atoll.llmsr.laws.factor import Array, Factor, Shape, values_of

_NUM_SINGLE, _NUM_SCALED, _NUM_PAIRED, _NUM_FACTORS = 400, 900, 300, 500
_SHARE = 1e-9  # of its own that a column must have to be told from the law's terms


class Stratum(NamedTuple):
    """Terms of one make, with their values at every data point, one term per row."""

    terms: Sequence[law.Term]
    values: Array


class Dictionary:
    """Terms for one set of rows; what does not change is computed once."""

    def __init__(self, rows: projection.Rows, domain: Domain) -> None:
        num_variables = len(rows.columns)
        with np.errstate(all="ignore"):
            made = grid.factors(rows.columns, domain)
            values = np.array([values_of(factor, rows.columns) for factor in made]).reshape(len(made), len(rows))
            usable = np.isfinite(values).all(axis=1) & (values.std(axis=1) > _SHARE * np.abs(values).max(axis=1))
            self.powers = grid.powers(num_variables, domain)
            own = [factor.variables[0] for factor in self.powers]
            self._powers_of = [
                [place for place, variable in enumerate(own) if variable == each] for each in range(num_variables)
            ]
            self._power_values = np.array([values_of(factor, rows.columns) for factor in self.powers])
        self._factors = [factor for factor, is_usable in zip(made, usable, strict=True) if is_usable]
        self._values = values[usable]
        self._families = _families(self._factors)
        degree = 4 if num_variables <= 3 else 3 if num_variables <= 8 else 2
        roots = [(factor,) for factor in self.powers if factor.power not in (1.0, 2.0, 3.0, 4.0) or factor.fn == "ln"]
        self._monomials: list[law.Term] = [*grid.monomials(num_variables, degree), *roots]
        with np.errstate(all="ignore"):
            self._monomial_values = law.design(tuple(self._monomials), rows.columns)
        self._low = [
            place
            for place, term in enumerate(self._monomials)
            if term and sum(abs(factor.power) for factor in term) <= 2
        ]

    def terms(self, rng: Random) -> list[Stratum]:
        """Draws terms of four makes: products of powers, single factors, factors with powers, and pairs of factors."""
        strata = [Stratum(self._monomials, self._monomial_values)]
        if not self._factors:
            return strata
        single = self._draw(rng, _NUM_SINGLE)
        strata.append(Stratum([(self._factors[place],) for place in single], self._values[single]))
        scaled = self._draw(rng, _NUM_SCALED)
        by = rng.choices(self._low, k=len(scaled))
        terms = [self._monomials[power] + (self._factors[place],) for power, place in zip(by, scaled, strict=True)]
        strata.append(Stratum(terms, self._monomial_values[by] * self._values[scaled]))
        left, right = self._draw(rng, _NUM_PAIRED), self._draw(rng, _NUM_PAIRED)
        rng.shuffle(right)
        pairs: list[law.Term] = [(self._factors[one], self._factors[two]) for one, two in zip(left, right, strict=True)]
        return [*strata, Stratum(pairs, self._values[left] * self._values[right])]

    def multiples(self, rng: Random, term: law.Term, values: Array) -> list[Stratum]:
        """Draws factors and multiplies a term by each."""
        places = self._draw(rng, _NUM_FACTORS) if self._factors else []
        strata = [Stratum([(*term, factor) for factor in self.powers], self._power_values * values)]
        if places:
            strata.append(Stratum([(*term, self._factors[place]) for place in places], self._values[places] * values))
            strata.append(self._saturating(rng, term, values))
        return strata

    def _saturating(self, rng: Random, term: law.Term, values: Array) -> Stratum:
        """Multiplies a term by a factor and a power of its variable at once: x / (1 + x), x exp(-x) and their like."""
        places = self._draw(rng, _NUM_PAIRED)
        by = [rng.choice(self._powers_of[self._factors[place].variables[0]]) for place in places]
        terms = [(*term, self.powers[power], self._factors[place]) for power, place in zip(by, places, strict=True)]
        return Stratum(terms, self._power_values[by] * self._values[places] * values)

    def _draw(self, rng: Random, count: int) -> list[int]:
        """Draws from every family alike: waves are many only because their grid is fine."""
        each = max(1, count // len(self._families))
        drawn = [family if len(family) <= each else rng.sample(family, each) for family in self._families]
        return [place for places in drawn for place in places]


def _families(factors: Sequence[Factor]) -> list[list[int]]:
    families: dict[Shape, list[int]] = {}
    for place, factor in enumerate(factors):
        families.setdefault(factor.shape, []).append(place)
    return list(families.values())


def best(strata: Sequence[Stratum], solution: projection.Solution | None, target: Array, count: int) -> list[law.Term]:
    """Returns the terms that would lower the error most, `count` of each stratum, no two of one shape in it."""
    return [term for stratum in strata for term in _best(stratum, solution, target, count)]


def pursue(strata: Sequence[Stratum], target: Array, count: int) -> Iterator[law.Terms]:
    """Yields sums of terms: one term after the other that explains most of the rest, then without the idlest ones."""
    terms = [term for stratum in strata for term in stratum.terms]
    values = np.concatenate([stratum.values for stratum in strata])
    chosen: list[int] = []
    solution: projection.Solution | None = None
    for _ in range(count):
        gains = _gains(values, solution, target)
        found = projection.solve(values[[*chosen, int(gains.argmax())]], target) if gains.max() > 0.0 else None
        if found is None:
            break
        chosen.append(int(gains.argmax()))
        solution = found
        yield tuple(terms[place] for place in chosen)
    while solution is not None and len(chosen) > 2:
        # What a term is worth is what its coefficient explains beside the others: w^2 / inv(A A')_kk.
        inverse = np.linalg.pinv(values[chosen] @ values[chosen].T)
        worths = solution.weights**2 / np.maximum(np.diag(inverse), math.ulp(0.0))
        del chosen[int(worths.argmin())]
        solution = projection.solve(values[chosen], target)
        yield tuple(terms[place] for place in chosen)


def _best(stratum: Stratum, solution: projection.Solution | None, target: Array, count: int) -> list[law.Term]:
    gains = _gains(stratum.values, solution, target)
    found: dict[object, law.Term] = {}
    for place in np.argsort(-gains)[: 12 * count]:
        if len(found) == count or gains[place] <= 0.0:
            break
        term = stratum.terms[place]
        found.setdefault(law.shape_of_term(term), term)
    return list(found.values())


def _gains(values: Array, solution: projection.Solution | None, target: Array) -> Array:
    """Returns by how much each column would lower the sum of squares, the law's own coefficients refitted."""
    with np.errstate(all="ignore"):
        residual = target if solution is None else solution.residual
        norms = np.einsum("ij,ij->i", values, values)
        own = norms
        if solution is not None:
            inside = values @ solution.basis
            own = norms - np.einsum("ij,ij->i", inside, inside)
        gains = (values @ residual) ** 2 / np.maximum(own, math.ulp(0.0))
        usable = np.isfinite(gains) & (own > _SHARE * norms)
    return np.where(usable, gains, 0.0)

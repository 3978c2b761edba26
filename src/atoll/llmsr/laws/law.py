"""A law: a sum of terms, each a coefficient times a product of factors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from atoll.candidate import JSON
from atoll.llmsr.laws.factor import Array, Columns, Factor, values_of

type Term = tuple[Factor, ...]
type Terms = tuple[Term, ...]

LONGEST_POWER = 4.0


class Law(NamedTuple):
    """Terms and their coefficients; no term at all is the law 0."""

    terms: Terms
    coefficients: tuple[float, ...]

    @property
    def size(self) -> int:
        """How many nodes it has as a tree: operators, functions, variables and constants."""
        return size_of(self.terms)

    def predict(self, columns: Columns) -> Array:
        """Returns the law at every data point: finite, even far outside of what it was made for."""
        with np.errstate(all="ignore"):
            weights = np.array(self.coefficients)
            return np.nan_to_num(weights @ design(self.terms, columns) if self.terms else np.zeros(columns.shape[1]))

    def text(self, names: Sequence[str]) -> str:
        """Returns it as an expression of numpy's Python, constants written so that they read back exactly."""
        return " ".join(self._parts(names))

    def source(self, names: Sequence[str], name: str = "equation") -> str:
        """Returns it as a Python function of its variables, a term on each line."""
        body = "\n        ".join(self._parts(names))
        return f"def {name}({', '.join(names)}):\n    return (\n        {body}\n    )\n"

    def _parts(self, names: Sequence[str]) -> list[str]:
        parts: list[str] = []
        for value, term in zip(self.coefficients, self.terms, strict=True):
            sign = ("- " if value < 0 else "+ ") if parts else ("-" if value < 0 else "")
            parts.append(sign + "*".join([repr(abs(value)), *(factor.text(names) for factor in term)]))
        return parts or ["0.0"]

    def to_data(self) -> Mapping[str, JSON]:
        """Returns it as plain data."""
        return {"terms": [[list(each) for each in term] for term in self.terms], "weights": list(self.coefficients)}


def from_data(data: Mapping[str, Any]) -> Law:
    """Reads back what `Law.to_data` wrote."""
    terms = tuple(
        tuple(
            Factor(fn, tuple(at), power, shifted, outer, tuple(theta)) for fn, at, power, shifted, outer, theta in term
        )
        for term in data["terms"]
    )
    return Law(terms, tuple(data["weights"]))


def size_of(terms: Terms) -> int:
    """Returns the nodes of a sum of terms."""
    return max(1, sum(2 + sum(factor.size + 1 for factor in term) for term in terms) - 1)


def shape_of(terms: Terms) -> tuple[tuple[str, ...], ...]:
    """Returns what a sum is but for its constants and its order."""
    return tuple(sorted(shape_of_term(term) for term in terms))


def shape_of_term(term: Term) -> tuple[str, ...]:
    """Returns what a term is but for its constants and its order."""
    return tuple(sorted(repr(factor.shape) for factor in term))


def merged(terms: Iterable[Term]) -> Terms:
    """Returns a sum in its usual form: powers of one variable joined, equal terms once."""
    joined = [_joined(term) for term in terms]
    return tuple({repr(term): term for term in joined}.values())


def _joined(term: Term) -> Term:
    powers: dict[int, float] = {}
    rest: list[Factor] = []
    for factor in term:
        if factor.fn == "pow" and factor.power >= 1:
            powers[factor.variables[0]] = powers.get(factor.variables[0], 0.0) + factor.power
        else:
            rest.append(factor)
    rest += [Factor("pow", (each,), min(power, LONGEST_POWER)) for each, power in powers.items()]
    return tuple(sorted(rest, key=lambda factor: repr(factor.shape)))


def values_of_term(term: Term, columns: Columns) -> Array:
    """Returns a term without its coefficient at every data point."""
    product = np.ones(columns.shape[1])
    for factor in term:
        product = product * values_of(factor, columns)
    return product


def design(terms: Terms, columns: Columns) -> Array:
    """Returns the terms without coefficients, one per row."""
    return np.array([values_of_term(term, columns) for term in terms])


def theta_of(terms: Terms) -> Array:
    """Returns all constants inside the factors, in order."""
    return np.array([value for term in terms for factor in term for value in factor.theta])


def with_theta(terms: Terms, theta: Array) -> Terms:
    """Returns the same terms with other constants inside their factors."""
    values = iter(theta.tolist())
    return tuple(
        tuple(
            factor._replace(theta=tuple(next(values) for _ in factor.theta)) if factor.theta else factor
            for factor in term
        )
        for term in terms
    )

"""Law: a sum of terms, each a coefficient times a product of factors."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from atoll.candidate import JSON
from atoll.llmsr.laws.factor import Array, Columns, Factor, compute_values

type Term = tuple[Factor, ...]
type Terms = tuple[Term, ...]

MAX_POWER = 4.0


class Law(NamedTuple):
    """Terms and their coefficients. Without terms it is the law 0."""

    terms: Terms
    coefficients: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of nodes of its tree: operators, functions, variables and constants."""
        return compute_size(self.terms)

    def predict(self, columns: Columns) -> Array:
        """Returns the values at every data point. They are finite, even far outside of the domain."""
        with np.errstate(all="ignore"):
            weights = np.array(self.coefficients)
            return np.nan_to_num(
                weights @ build_design_matrix(self.terms, columns) if self.terms else np.zeros(columns.shape[1])
            )

    def to_text(self, names: Sequence[str]) -> str:
        """Returns it as a Python expression with numpy, with exact constants."""
        return " ".join(self._format_terms(names))

    def to_source(self, names: Sequence[str], name: str = "equation") -> str:
        """Returns it as a Python function of its variables, with one term per line."""
        body = "\n        ".join(self._format_terms(names))
        return f"def {name}({', '.join(names)}):\n    return (\n        {body}\n    )\n"

    def _format_terms(self, names: Sequence[str]) -> list[str]:
        parts: list[str] = []
        for value, term in zip(self.coefficients, self.terms, strict=True):
            sign = ("- " if value < 0 else "+ ") if parts else ("-" if value < 0 else "")
            parts.append(sign + "*".join([repr(abs(value)), *(factor.to_text(names) for factor in term)]))
        return parts or ["0.0"]

    def to_data(self) -> Mapping[str, JSON]:
        """Returns it as plain data."""
        return {"terms": [[list(factor) for factor in term] for term in self.terms], "weights": list(self.coefficients)}


def from_data(data: Mapping[str, Any]) -> Law:
    """Returns the law from the data of `Law.to_data`."""
    terms = tuple(
        tuple(
            Factor(fn, tuple(variables), power, is_shifted, outer, tuple(theta))
            for fn, variables, power, is_shifted, outer, theta in term
        )
        for term in data["terms"]
    )
    return Law(terms, tuple(data["weights"]))


def compute_size(terms: Terms) -> int:
    """Returns the number of nodes of a sum of terms."""
    return max(1, sum(2 + sum(factor.size + 1 for factor in term) for term in terms) - 1)


def get_shape(terms: Terms) -> tuple[tuple[str, ...], ...]:
    """Returns the structure of a sum without constants and order."""
    return tuple(sorted(get_term_shape(term) for term in terms))


def get_term_shape(term: Term) -> tuple[str, ...]:
    """Returns the structure of a term without constants and order."""
    return tuple(sorted(repr(factor.shape) for factor in term))


def merge_terms(terms: Iterable[Term]) -> Terms:
    """Returns a sum in normal form: joined powers of one variable, no equal terms."""
    merged_terms = [_merge_powers(term) for term in terms]
    return tuple({repr(term): term for term in merged_terms}.values())


def _merge_powers(term: Term) -> Term:
    powers: dict[int, float] = {}
    factors: list[Factor] = []
    for factor in term:
        if factor.fn == "pow" and factor.power >= 1:
            powers[factor.variables[0]] = powers.get(factor.variables[0], 0.0) + factor.power
        else:
            factors.append(factor)
    factors += [Factor("pow", (variable,), min(power, MAX_POWER)) for variable, power in powers.items()]
    return tuple(sorted(factors, key=lambda factor: repr(factor.shape)))


def compute_term_values(term: Term, columns: Columns) -> Array:
    """Returns the values of a term without its coefficient at every data point."""
    product = np.ones(columns.shape[1])
    for factor in term:
        product = product * compute_values(factor, columns)
    return product


def build_design_matrix(terms: Terms, columns: Columns) -> Array:
    """Returns the values of the terms without coefficients, one term per row."""
    return np.array([compute_term_values(term, columns) for term in terms])


def collect_theta(terms: Terms) -> Array:
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

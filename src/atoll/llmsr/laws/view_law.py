"""Law as a tree, found in a view of the data."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np

from atoll.candidate import JSON
from atoll.llmsr.laws import law, least_squares, terms_fit
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.terms_fit import Sample
from atoll.llmsr.laws.tree import Array, Columns, Tree, compute_size, evaluate, get_shape, to_data, to_text
from atoll.llmsr.laws.tree import from_data as tree_from_data
from atoll.llmsr.laws.views import LINKS, View, view_from_data


class AnyLaw(Protocol):
    """Law of either search: a sum of products (`law.Law`) or a tree (`ViewLaw`)."""

    @property
    def size(self) -> int:
        """Number of nodes of its text."""

    def predict(self, columns: Columns) -> Array:
        """Returns finite values at every data point."""

    def to_text(self, names: Sequence[str]) -> str:
        """Returns it as a Python expression with numpy."""

    def to_source(self, names: Sequence[str], name: str = "equation") -> str:
        """Returns it as a Python function."""


class TreeLaw:
    """Law as a tree with final constants."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree

    @cached_property
    def size(self) -> int:
        return compute_size(self.tree)

    def predict(self, columns: Columns) -> Array:
        with np.errstate(all="ignore"):
            values = np.asarray(evaluate(self.tree, columns), dtype=np.float64)
            finite: Array = np.nan_to_num(np.broadcast_to(values, columns.shape[1:]))
            return finite

    def to_text(self, names: Sequence[str]) -> str:
        return to_text(self.tree, names)

    def to_source(self, names: Sequence[str], name: str = "equation") -> str:
        return f"def {name}({', '.join(names)}):\n    return {self.to_text(names)}\n"


class ViewLaw(TreeLaw):
    """Law as terms of a view with their coefficients, the offset first. Its tree has the original variables."""

    def __init__(self, view: View, terms: Sequence[Tree], coefficients: Sequence[float]) -> None:
        super().__init__(view.assemble(terms, coefficients))
        self.view, self.terms, self.coefficients = view, tuple(terms), tuple(coefficients)

    @property
    def shape(self) -> str:
        """Structure without constants."""
        return " + ".join(get_shape(term) for term in self.terms)

    def to_data(self) -> Mapping[str, JSON]:
        """Returns it as plain data."""
        terms: list[JSON] = [to_data(term) for term in self.terms]
        return {"view": self.view.to_data(), "terms": terms, "coefficients": list(self.coefficients)}


def from_data(data: Mapping[str, Any]) -> law.Law | ViewLaw:
    """Returns the law from the data of `to_data` of either kind."""
    if "view" in data:
        terms = [tree_from_data(term) for term in data["terms"]]
        return ViewLaw(view_from_data(data["view"]), terms, data["coefficients"])
    return law.from_data(data)


def make_sample(view: View, columns: Columns, target: Array, variance: float) -> Sample:
    """Returns the rows as a view shows them. Errors are in units of the variance."""
    with np.errstate(all="ignore"):
        factor = np.broadcast_to(evaluate(view.factor, columns), target.shape)
        divided = target / factor
        link = LINKS[view.link]
        values = np.array([np.broadcast_to(evaluate(variable, columns), target.shape) for variable in view.variables])
        return Sample(values, link.apply(divided), link.slope(divided) * np.abs(factor), variance)


class RefittedLaw(NamedTuple):
    """Law and its error."""

    law: AnyLaw
    error: float


def refit(known: AnyLaw, rows: Rows, steps: int, tolerance: float) -> RefittedLaw | None:
    """Fits the constants of a law to rows; None if it cannot be fitted."""
    if isinstance(known, law.Law):
        fitted = least_squares.fit(known.terms, rows, steps=steps, tolerance=tolerance)
        return None if fitted is None else RefittedLaw(*fitted)
    if not isinstance(known, ViewLaw):
        return RefittedLaw(known, rows.error(rows.target - known.predict(rows.columns)))
    with np.errstate(all="ignore"):
        sample = make_sample(known.view, rows.columns, rows.target, rows.variance)
        terms = terms_fit.fit_terms(known.terms, sample, steps, tolerance)
    if terms is None:
        return None
    new = ViewLaw(known.view, terms.terms, terms.coefficients)
    return RefittedLaw(new, rows.error(rows.target - new.predict(rows.columns)))

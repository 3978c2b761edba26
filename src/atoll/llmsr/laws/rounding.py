"""Rounds constants of a law to simple numbers, as far as the data supports it."""

import math
from collections.abc import Iterator

import numpy as np

from atoll.llmsr.laws import constants, constraints, tree
from atoll.llmsr.laws.least_squares import Rows
from atoll.llmsr.laws.view_law import AnyLaw, TreeLaw

_EXACT_ERROR = 1e-22  # smaller errors are equal
_MAX_ROUNDING_NATS = 2.0  # likelihood that rounding one constant may cost
_NUM_REFITTED, _REFIT_STEPS, _MAX_EXCESS = 3, 5, 1.5  # simple numbers for which the other constants are fitted again


def round_constants(law: AnyLaw, rows: Rows, min_error: float, num_independent: int) -> AnyLaw:
    """Rounds constants of a law to simple numbers as far as the data supports it, which also removes terms.

    Args:
        law: The law.
        rows: Rows with their noise.
        min_error: Errors below are equal.
        num_independent: Number of independent rows.
    """
    known_tree = constraints.to_tree(law, len(rows.columns))
    if known_tree is None:
        return law

    def compute_error(law_tree: tree.Tree) -> float:
        return rows.error(rows.target - TreeLaw(law_tree).predict(rows.columns))

    if rows.noise is not None:  # the search fitted with the same noise in all rows
        with np.errstate(all="ignore"):
            fitter = constants.ConstantsFit(known_tree, rows)
            values, _ = fitter.fit(fitter.initial, fitter.is_free, fitter.weights)
        known_tree = tree.with_constants(known_tree, iter(values.tolist()))
    best = tree.simplify(known_tree)
    worst = compute_error(known_tree) * math.exp(_MAX_ROUNDING_NATS / num_independent)
    limit = max(worst, _EXACT_ERROR, min_error)
    rounded_tree = _round_constants(best, rows, limit)
    simple_tree = tree.merge_factors(tree.simplify(rounded_tree))
    if not set(tree.collect_constants(simple_tree)) <= set(tree.collect_constants(rounded_tree)):
        merged = _round_constants(simple_tree, rows, limit)  # a product of two rounded constants is a new constant
        simple_tree = tree.merge_factors(tree.simplify(merged))
    if not compute_error(simple_tree) <= 2.0 * limit:  # not a number: constants overflow
        return law
    return TreeLaw(simple_tree)


def _round_constants(best: tree.Tree, rows: Rows, limit: float) -> tree.Tree:
    """Replaces one constant after the other by the simplest number with which the error stays below a limit."""

    def compute_error(law_tree: tree.Tree) -> float:
        return rows.error(rows.target - TreeLaw(law_tree).predict(rows.columns))

    rounded: set[int] = set()  # constants that keep their value when others are fitted again
    for index in range(tree.count_constants(best)):
        for position, simple in enumerate(iter_simple_numbers(tree.collect_constants(best)[index])):
            trial = _replace_constant(best, index, simple)
            error = compute_error(trial)
            if error > limit and position < _NUM_REFITTED:
                trial = _refit_others(best, index, simple, rounded, rows, _MAX_EXCESS * limit)
                error = compute_error(trial)
            if error <= limit:
                best = trial
                rounded.add(index)
                break
    return best


def _replace_constant(law_tree: tree.Tree, index: int, value: float) -> tree.Tree:
    values = tree.collect_constants(law_tree)
    values[index] = value
    return tree.with_constants(law_tree, iter(values))


def _refit_others(
    law_tree: tree.Tree, index: int, value: float, fixed: set[int], rows: Rows, max_error: float
) -> tree.Tree:
    """Sets one constant and fits the others but some, if the error can stay below a limit to second order."""
    with np.errstate(all="ignore"):
        fitter = constants.ConstantsFit(law_tree, rows)
        is_free = fitter.is_free.copy()
        is_free[list(fixed)] = False
        start = fitter.initial.copy()
        start[index] = value
        start_tree = tree.with_constants(law_tree, iter(start.tolist()))
        if not is_free[index] or fitter.predict_error(index, value, is_free) > max_error:
            return start_tree
        is_free[index] = False
        values, _ = fitter.fit(start, is_free, fitter.weights, _REFIT_STEPS)
    return tree.with_constants(law_tree, iter(values.tolist()))


def iter_simple_numbers(value: float) -> Iterator[float]:
    """Yields simple numbers near a constant: zero, whole numbers, fractions, multiples of pi, then decimals.

    The first ones can change the form of a law.
    """
    if not math.isfinite(value):
        return
    yield 0.0
    for denominator in (1, 2, 3, 4):
        yield round(value * denominator) / denominator
    for denominator in (1, 2, 4):
        yield round(value / math.pi * denominator) / denominator * math.pi
    for digits in range(1, 13):
        yield float(f"{value:.{digits}g}")

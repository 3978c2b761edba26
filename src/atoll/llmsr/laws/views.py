"""Views of the data: fewer variables, a factor that is divided out, and a transformed target.

Many laws depend on some variables only through their product, ratio, difference or sum, or have a power of a variable
as a factor. Kernel regression shows it: with the right combination, fewer variables predict rows that were left out
better. A law that the search finds in a view has the form factor * inverse(offset + terms).
"""

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from atoll.candidate import JSON
from atoll.llmsr.fit.lazy_scipy import scipy
from atoll.llmsr.laws.tree import ONE, Array, Columns, Tree, evaluate, from_data, simplify, substitute, to_data

_NUM_ROWS = (160, 280)  # of the kernel regression, which takes time with their cube; more if few predict badly
_MIN_ROWS = 40  # with fewer, left-out errors mislead
_GOOD_ERROR = 0.03
_MAX_TESTS = 2_000  # kernel regressions in all
_SCALES = (1.0, 2.0, 4.0)  # of the kernel, in standard deviations times the root of the number of variables
_RIDGES = (1e-11, 1e-8, 1e-5, 1e-2)
_MIN_GAIN, _MIN_WEAK_GAIN = 0.95, 0.6  # a combination must have at most this share of the error: a good, a large one
_POWERS = (1.0, -1.0, 2.0, -2.0, 0.5, -0.5)
_LONG_TAIL = 5.0  # ratio of the largest to the smallest value, above which the kernel sees logarithms
_MIN_LINK_DISTANCE = 1e-10  # of the target, likewise
_MIN_DISTANCE = 1e-3  # from zero, relative to the largest value: closer values are not divided by


@dataclass(frozen=True, slots=True)
class Link:
    """Transformation of the target.

    Attributes:
        apply: Transforms the target.
        slope: Derivative of the original by the transformed target, from the original.
        invert: Returns the tree of the original target from that of the transformed one.
    """

    apply: Callable[[Array], Array]
    slope: Callable[[Array], Array]
    invert: Callable[[Tree], Tree]


LINKS: Mapping[str, Link] = {
    "y": Link(lambda y: y, np.ones_like, lambda tree: tree),
    "1/y": Link(lambda y: 1.0 / y, lambda y: y * y, lambda tree: ("reciprocal", tree)),
    "log y": Link(np.log, lambda y: y, lambda tree: ("exp", tree)),
    "y**2": Link(np.square, lambda y: 0.5 / np.abs(y), lambda tree: ("sqrt", tree)),
    "1/y**2": Link(lambda y: y**-2.0, lambda y: 0.5 * np.abs(y) ** 3, lambda tree: ("reciprocal", ("sqrt", tree))),
    "sqrt y": Link(np.sqrt, lambda y: 2.0 * np.sqrt(y), lambda tree: ("square", tree)),
}


def find_links(target: Array) -> list[str]:
    """Returns the transformations that are defined for all values."""
    is_far = np.abs(target).min() > _MIN_LINK_DISTANCE * np.abs(target).max()
    is_positive = bool((target > 0.0).all())
    links = ["y"]
    if is_far:
        links.append("1/y")
    if is_positive and is_far:
        links += ["log y", "1/y**2", "y**2", "sqrt y"]
    elif bool((target >= 0.0).all()):
        links.append("y**2")
    return links


@dataclass(frozen=True, slots=True)
class View:
    """Variables of a search, as trees of the original variables, with factor and link.

    Attributes:
        variables: The variables.
        factor: Divides the target before the link.
        link: Key of `LINKS`.
    """

    variables: tuple[Tree, ...]
    factor: Tree
    link: str

    @property
    def is_plain(self) -> bool:
        """Returns whether it shows the data unchanged."""
        return self.link == "y" and self.factor == ONE and all(tree[0] == "x" for tree in self.variables)

    def assemble(self, terms: Sequence[Tree], coefficients: Sequence[float]) -> Tree:
        """Returns the law of terms of the view, in the original variables. The offset is the first coefficient."""
        total: Tree = ("c", coefficients[0])
        factor = self.factor
        for coefficient, term in zip(coefficients[1:], terms, strict=True):
            part = substitute(term, self.variables)
            if self.link == "log y" and part[0] == "log":  # exp(a*log(u)) is u**a
                power = ("**", part[1], ("c", coefficient))
                factor = power if factor == ONE else ("*", factor, power)
            else:
                total = ("+", total, ("*", ("c", coefficient), part))
        law = LINKS[self.link].invert(total)
        return simplify(law if factor == ONE else ("*", factor, law))

    def to_data(self) -> dict[str, JSON]:
        """Returns it as plain data."""
        return {
            "variables": [to_data(tree) for tree in self.variables],
            "factor": to_data(self.factor),
            "link": self.link,
        }


def view_from_data(data: Mapping[str, Any]) -> View:
    """Returns the view from the data of `View.to_data`."""
    return View(tuple(map(from_data, data["variables"])), from_data(data["factor"]), data["link"])


def find_views(columns: Columns, target: Array) -> list[View]:
    """Returns the views of the data: the reduced variables first, then the original ones, each with its links."""
    with np.errstate(all="ignore"):
        original = tuple(("x", index) for index in range(len(columns)))
        plain = [View(original, ONE, link) for link in find_links(target)]
        variables, factor = original, ONE
        if len(target) >= _MIN_ROWS:
            variables, factor = _reduce_variables(columns, target)
        if variables == original:
            return plain
        divided = target / evaluate(factor, columns)
        reduced = [View(variables, factor, link) for link in find_links(divided)]
        return [*reduced, *plain] if len(variables) > 1 else [*reduced, plain[0]]


@dataclass(frozen=True, slots=True)
class _State:
    """Variables with their values, and the factor."""

    variables: tuple[Tree, ...]
    values: tuple[Array, ...]
    factor: Tree
    divided: Array


def _reduce_variables(columns: Columns, target: Array) -> tuple[tuple[Tree, ...], Tree]:
    """Combines variables as long as kernel regression gets better."""
    variables = tuple(("x", index) for index in range(len(columns)))
    order = np.random.default_rng(0).permutation(len(target))
    for num_rows in _NUM_ROWS:
        rows = order[:num_rows]
        state = _State(variables, tuple(columns[:, rows]), ONE, target[rows])
        error, settings = _find_settings(state)
        if error < _GOOD_ERROR:
            break
    state, error, settings = _drop_variables(state, error, settings)
    num_tests = 0
    while len(state.variables) > 1 and num_tests < _MAX_TESTS:
        candidates = list(_iter_candidates(state))
        num_tests += len(candidates)
        errors = [_compute_error(candidate, settings) for candidate in candidates]
        best = int(np.argmin(errors))
        if not errors[best] < 2.0 * error:
            break
        new_error, new_settings = _find_settings(candidates[best])
        if not new_error < (_MIN_GAIN if new_error < _GOOD_ERROR else _MIN_WEAK_GAIN) * error:
            break
        state, error, settings = candidates[best], new_error, new_settings
    return state.variables, simplify(state.factor)


type _Settings = list[tuple[float, float]]  # scale and ridge of a kernel


def _drop_variables(state: _State, error: float, settings: _Settings) -> tuple[_State, float, _Settings]:
    """Leaves out variables without effect, if kernel regression is good without them or much better.

    Combinations of variables take time with the square of their number, so it pays to leave out some first.
    """
    new_state, new_error = state, error
    while len(new_state.variables) > 1:
        candidates = [
            _State(_omit(new_state.variables, index), _omit(new_state.values, index), state.factor, state.divided)
            for index in range(len(new_state.variables))
        ]
        errors = [_compute_error(candidate, settings) for candidate in candidates]
        best = int(np.argmin(errors))
        if not errors[best] < _MIN_GAIN * new_error:
            break
        new_state, new_error = candidates[best], errors[best]
    if not new_error < (_MIN_GAIN if new_error < _GOOD_ERROR else _MIN_WEAK_GAIN) * error:
        return state, error, settings
    return new_state, *_find_settings(new_state)


def _omit[T](items: tuple[T, ...], index: int) -> tuple[T, ...]:
    return (*items[:index], *items[index + 1 :])


def _iter_candidates(state: _State) -> Iterator[_State]:
    """Yields the states with one variable fewer."""
    for index, values in enumerate(state.values):
        rest = [position for position in range(len(state.values)) if position != index]
        variables, others = tuple(state.variables[i] for i in rest), tuple(state.values[i] for i in rest)
        for power in _POWERS:
            smallest = values.min() if abs(power) == 0.5 else np.abs(values).min()
            if smallest < _MIN_DISTANCE * np.abs(values).max():
                continue
            factor = ("*", state.factor, _make_power(state.variables[index], power))
            yield _State(variables, others, factor, state.divided / values**power)
    for first, second in itertools.combinations(range(len(state.values)), 2):
        rest = [position for position in range(len(state.values)) if position not in (first, second)]
        variables, others = tuple(state.variables[i] for i in rest), tuple(state.values[i] for i in rest)
        for tree, values in _iter_combinations(state, first, second):
            if np.isfinite(values).all() and np.std(values) > 1e-9 * np.abs(values).max():
                yield _State((tree, *variables), (values, *others), state.factor, state.divided)


def _make_power(tree: Tree, power: float) -> Tree:
    positive: Tree = tree
    if abs(power) == 2.0:
        positive = ("square", tree)
    elif abs(power) == 0.5:
        positive = ("sqrt", tree)
    return positive if power > 0.0 else ("reciprocal", positive)


def _iter_combinations(state: _State, first: int, second: int) -> Iterator[tuple[Tree, Array]]:
    """Yields trees of two variables with their values."""
    a, b = state.variables[first], state.variables[second]
    u, v = state.values[first], state.values[second]
    yield ("-", a, b), u - v
    yield ("+", a, b), u + v
    yield ("*", a, b), u * v
    yield ("*", ("square", a), b), u * u * v
    yield ("*", a, ("square", b)), u * v * v
    yield ("+", ("square", a), ("square", b)), u * u + v * v
    if np.abs(v).min() > _MIN_DISTANCE * np.abs(v).max():
        yield ("/", a, b), u / v
        yield ("/", ("square", a), b), u * u / v
        yield ("/", a, ("square", b)), u / (v * v)
    elif np.abs(u).min() > _MIN_DISTANCE * np.abs(u).max():
        yield ("/", b, a), v / u
        yield ("/", ("square", b), a), v * v / u
        yield ("/", b, ("square", a)), v / (u * u)


# Kernel regression


def _transform(target: Array) -> Array:
    """Returns the logarithm of a positive target, in which factors are terms."""
    if (target > 0.0).all() and target.min() > _MIN_DISTANCE * target.max():
        target = np.log(target)
    elif (target < 0.0).all():
        target = np.log(-target)
    centered = target - target.mean()
    scale = float(centered.std())
    return centered / scale if scale > 0.0 and math.isfinite(scale) else centered * math.nan


def _compute_distances(values: Sequence[Array]) -> Array:
    """Returns the squared distances of rows, with each variable scaled to its standard deviation."""
    total = np.zeros((len(values[0]), len(values[0])))
    for column in values:
        if column.min() > 0.0 and column.max() > _LONG_TAIL * column.min():
            column = np.log(column)
        scaled = column / column.std()
        total += (scaled[:, None] - scaled) ** 2
    return total / len(values)


def _compute_error(state: _State, settings: Sequence[tuple[float, float]]) -> float:
    """Returns the smallest mean squared error of rows that were left out, in variances of the target."""
    if not state.values:
        return math.inf
    target, distances = _transform(state.divided), _compute_distances(state.values)
    if not (math.isfinite(target.sum()) and math.isfinite(distances.sum())):
        return math.inf
    return min(_compute_left_out_error(distances, target, scale, ridge) for scale, ridge in settings)


def _compute_left_out_error(distances: Array, target: Array, scale: float, ridge: float) -> float:
    kernel = np.exp(distances * (-0.5 / (scale * scale)))
    kernel[np.diag_indices_from(kernel)] += ridge
    factor, status = scipy.linalg.lapack.dpotrf(kernel, lower=1)
    if status:
        return math.inf
    inverse, status = scipy.linalg.lapack.dpotri(factor, lower=1)
    if status:
        return math.inf
    inverse = np.tril(inverse) + np.tril(inverse, -1).T
    residual = (inverse @ target) / np.diag(inverse)
    return float(np.mean(residual * residual))


def _find_settings(state: _State) -> tuple[float, list[tuple[float, float]]]:
    """Returns the smallest error and the best two settings of the kernel."""
    ranked = sorted((_compute_error(state, [(scale, ridge)]), (scale, ridge)) for scale in _SCALES for ridge in _RIDGES)
    return ranked[0][0], [settings for _, settings in ranked[:2]]

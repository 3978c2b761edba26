"""Moves of the law search: the ways in which a sum of terms becomes another one."""

import math
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

import numpy as np

from atoll.llmsr.laws import terms_fit
from atoll.llmsr.laws.terms_fit import Program, Sample
from atoll.llmsr.laws.tree import LEAVES, Array, Tree, iter_nodes, replace_node, simplify

type Terms = tuple[Tree, ...]

_MAX_LIBRARY = 400  # trees that one growth compares
_NUM_GROWN = 3  # best of them that are fitted
_FUNCTIONS = ("sin", "cos", "exp", "log", "sqrt", "square", "reciprocal", "tanh")
_WRAPPERS = (*_FUNCTIONS, "sqrt", "reciprocal")
_OPERATORS = ("+", "-", "*", "*", "/")


class Individual(NamedTuple):
    """Fitted terms.

    Attributes:
        error: Mean squared error on the screening rows, divided by the variance of the target.
        size: Nodes of the terms, with a coefficient each.
        terms: The terms.
        coefficients: The offset and one coefficient per term.
        origin: Index of the law from which it descends; -1 if it was built from nothing.
    """

    error: float
    size: int
    terms: Terms
    coefficients: tuple[float, ...]
    origin: int = -1


class Library:
    """Small trees with their values on a sample, to grow laws with."""

    def __init__(self, sample: Sample) -> None:
        trees: list[Tree] = []
        rows: list[Array] = []
        for tree in dict.fromkeys(map(simplify, _iter_library(sample.columns))):
            values = Program((tree,), sample).forward(_get_constants(tree))[-1]
            values = np.broadcast_to(np.asarray(values, dtype=np.float64), (sample.num_rows,))
            if np.isfinite(values).all() and values.std() > 1e-9 * np.abs(values).max():
                trees.append(tree)
                rows.append(values)
        self.trees, self.values = trees, np.array(rows)


def _get_constants(tree: Tree) -> list[float]:
    return [node[1] for _, node in iter_nodes(tree) if node[0] == "c"]


def _iter_library(columns: Array) -> Iterator[Tree]:
    """Yields small trees, with constants scaled to the data."""
    deviations = [float(column.std()) for column in columns]
    is_positive = [bool((column > 0.0).all()) for column in columns]
    for i, deviation in enumerate(deviations):
        x: Tree = ("x", i)
        yield from (x, ("square", x), ("*", x, ("square", x)), ("square", ("square", x)), ("abs", x))
        for scale in (1.0, 2.0, 0.5, 1.0 / deviation, math.pi):
            argument = ("*", ("c", scale), x)
            yield from (("sin", argument), ("cos", argument))
        for scale in (1.0 / deviation, -1.0 / deviation, -0.3 / deviation, 1.0, -1.0):
            yield ("exp", ("*", ("c", scale), x))
        yield ("exp", ("*", ("c", -0.5 / deviation**2), ("square", x)))
        yield ("tanh", ("*", ("c", 1.0 / deviation), x))
        for shift in (deviation, 1.0, 3.0 * deviation):
            yield ("reciprocal", ("+", ("c", shift), x))
            yield ("reciprocal", ("+", ("c", shift * shift), ("square", x)))
        yield ("sqrt", ("+", ("c", deviation**2), ("square", x)))
        if is_positive[i]:
            yield from (("reciprocal", x), ("reciprocal", ("square", x)), ("log", x), ("sqrt", x))
            yield from (("reciprocal", ("sqrt", x)), ("*", x, ("sqrt", x)), ("*", x, ("log", x)))
            yield ("**", x, ("c", 1.5))
            yield ("log", ("+", ("c", deviation), x))
        for j, other_deviation in enumerate(deviations):
            z: Tree = ("x", j)
            if i < j:
                yield from _iter_symmetric(x, z, deviation * other_deviation)
            if i == j:
                continue
            yield from (("*", ("square", x), z), ("*", x, ("sin", z)), ("*", x, ("cos", z)))
            yield ("*", x, ("exp", ("*", ("c", -1.0 / other_deviation), z)))
            if is_positive[j]:
                ratio = ("/", x, z)
                yield from (ratio, ("square", ratio), ("/", x, ("square", z)), ("/", ("square", x), z))
                yield from (("exp", ("neg", ratio)), ("exp", ratio), ("sin", ratio), ("cos", ratio))
                yield ("*", x, ("sqrt", z))
            if is_positive[i] and is_positive[j]:
                yield from (("sqrt", ("*", x, z)), ("sqrt", ("/", x, z)), ("log", ("/", x, z)))
                yield ("reciprocal", ("+", x, ("*", ("c", 1.0), z)))
                yield ("/", x, ("+", x, z))


def _iter_symmetric(x: Tree, z: Tree, deviation: float) -> Iterator[Tree]:
    for tree in (("*", x, z), ("-", x, z), ("+", x, z)):
        yield from (tree, ("sin", tree), ("cos", tree), ("square", tree))
    yield ("exp", ("*", ("c", -0.5 / deviation), ("*", x, z)))
    yield ("+", ("square", x), ("square", z))
    yield ("-", ("square", x), ("square", z))
    yield ("sqrt", ("+", ("square", x), ("square", z)))
    yield ("square", ("*", x, z))


class Mover:
    """Draws moves for one sample."""

    def __init__(self, sample: Sample, library: Library, rng: Random) -> None:
        self._sample, self._library, self._rng = sample, library, rng

    def make_random_terms(self) -> Terms:
        """Returns one to three trees of the library."""
        return tuple(self._rng.choice(self._library.trees) for _ in range(self._rng.randint(1, 3)))

    def make_random_tree(self, depth: int) -> Tree:
        rng = self._rng
        if depth == 0 or rng.random() < 0.25:
            is_variable = rng.random() < 0.8
            return ("x", rng.randrange(len(self._sample.columns))) if is_variable else ("c", rng.gauss(0.0, 2.0))
        if rng.random() < 0.4:
            return rng.choice(self._library.trees)
        if rng.random() < 0.6:
            return (rng.choice(_OPERATORS), self.make_random_tree(depth - 1), self.make_random_tree(depth - 1))
        return (rng.choice(_FUNCTIONS), self.make_random_tree(depth - 1))

    def draw(self, parent: Individual, other: Individual) -> Iterator[Terms]:
        """Yields new terms of one random move."""
        draw = self._rng.random()
        if draw < 0.5:
            yield from self.grow(parent)
        elif draw < 0.63:
            yield self.cross(parent, other)
        elif draw < 0.83:
            yield self.mutate(parent)
        elif draw < 0.88:
            yield self.wrap(parent)
        else:
            yield from self.shrink(parent)

    def _draw_node(self, terms: Terms) -> tuple[int, tuple[int, ...], Tree]:
        index = self._rng.randrange(len(terms)) if len(terms) > 1 else 0
        path, node = self._rng.choice(list(iter_nodes(terms[index])))
        return index, path, node

    def cross(self, parent: Individual, other: Individual) -> Terms:
        """Puts a node of another law into a law."""
        index, path, _ = self._draw_node(parent.terms)
        return _replace(parent.terms, index, path, self._draw_node(other.terms)[2])

    def mutate(self, parent: Individual) -> Terms:
        """Replaces a node with a random one that is similar."""
        rng = self._rng
        index, path, node = self._draw_node(parent.terms)
        draw = rng.random()
        new: Tree
        if draw < 0.25:
            new = self.make_random_tree(1)
        elif draw < 0.42:
            new = (rng.choice(_WRAPPERS), node)
        elif draw < 0.48:
            new = ("**", node, ("c", rng.choice((0.5, 1.5, 2.5, 3.0, -1.5))))
        elif draw < 0.65:
            new = (rng.choice(_OPERATORS), node, self.make_random_tree(1))
        elif draw < 0.75:
            new = (rng.choice(("-", "/")), self.make_random_tree(1), node)
        elif node[0] in LEAVES:
            is_variable = rng.random() < 0.7
            new = ("x", rng.randrange(len(self._sample.columns))) if is_variable else ("c", rng.gauss(0.0, 1.0))
        elif len(node) == 2:
            new = (rng.choice(_FUNCTIONS), node[1]) if rng.random() < 0.6 else node[1]
        else:
            new = (rng.choice(_OPERATORS), node[1], node[2]) if rng.random() < 0.6 else rng.choice(node[1:])
        return _replace(parent.terms, index, path, new)

    def wrap(self, parent: Individual) -> Terms:
        """Makes the whole sum the argument of a function."""
        total: Tree = ("c", parent.coefficients[0])
        for coefficient, term in zip(parent.coefficients[1:], parent.terms, strict=True):
            total = ("+", total, ("*", ("c", coefficient), term))
        return ((self._rng.choice(("reciprocal", "sqrt", "exp", "log", "square", "reciprocal", "sqrt")), total),)

    def shrink(self, parent: Individual) -> Iterator[Terms]:
        """Leaves out a term, and replaces a node with one of its arguments."""
        terms = parent.terms
        if len(terms) > 1:
            index = self._rng.randrange(len(terms))
            yield (*terms[:index], *terms[index + 1 :])
        index, path, node = self._draw_node(terms)
        if node[0] not in LEAVES:
            yield _replace(terms, index, path, self._rng.choice(node[1:]))

    def grow(self, parent: Individual) -> Iterator[Terms]:
        """Adds or replaces where it lowers the error most to first order, with a tree of the library."""
        sample, rng, terms = self._sample, self._rng, parent.terms
        program = Program(terms, sample, is_whole=True)
        values = program.forward(program.constants)
        solution = terms_fit.solve(program, values, sample)
        if solution is None:
            return
        count = len(self._library.trees)
        chosen = np.array(rng.sample(range(count), min(_MAX_LIBRARY, count)))
        library = self._library.values[chosen]
        if rng.random() < 0.2:
            gains, _ = _compute_gains(library * sample.weights, solution.residual, solution.basis)
            for best in _get_best(gains):
                yield (*terms, self._library.trees[chosen[best]])
            return
        site = self._draw_site(terms, program, values, solution)
        if site is None:
            return
        index, path, node, slope, value = site
        kind = rng.choice(("add", "add", "multiply", "divide", "replace", "factor"))
        is_added = kind in ("add", "factor")
        effects = slope * library if kind in ("add", "replace") else (slope * value) * library
        if kind == "divide":
            effects = (slope * value) / library
        basis, target = solution.basis, solution.residual
        if not is_added:
            # The node is gone, so its term is not part of the basis, and the target includes its effect.
            others = [values[root] * sample.weights for k, root in enumerate(program.roots) if k != index]
            rows = np.array([sample.weights, *others, *([slope] if kind == "replace" else [])])
            lengths = np.sqrt((rows * rows).sum(axis=1))
            if not np.isfinite(lengths).all() or lengths.min() == 0.0:
                return
            basis, _ = terms_fit.make_basis(rows / lengths[:, None])
            if not np.isfinite(basis).all():
                return
            target = target + slope * value
            target = target - basis @ (basis.T @ target)
        gains, scales = _compute_gains(effects, target, basis)
        for best in _get_best(gains):
            tree, scale = self._library.trees[chosen[best]], float(scales[best])
            scale = scale if math.isfinite(scale) and scale != 0.0 else 1.0
            offset = float(np.mean(value) - scale * np.mean(library[best]))
            new = _combine(kind, node, tree, scale, offset, is_term=not path)
            yield _replace(terms, index, path, new)

    def _draw_site(
        self, terms: Terms, program: Program, values: Sequence[Any], solution: terms_fit.Solution
    ) -> tuple[int, tuple[int, ...], Tree, Array, Array] | None:
        """Returns a random node: its term, path and tree, the derivative by it, and its value."""
        sample = self._sample
        adjoints = [coefficient * sample.weights for coefficient in solution.coefficients[1:]]
        slopes = program.backward(values, adjoints)
        slots = [slot for slot, slope in enumerate(slopes) if slope is not None]
        slot = self._rng.choice(slots)
        shape = (sample.num_rows,)
        slope = np.broadcast_to(np.asarray(slopes[slot], dtype=np.float64), shape)
        value = np.broadcast_to(np.asarray(values[slot], dtype=np.float64), shape)
        if not (np.isfinite(slope).all() and np.isfinite(value).all() and np.abs(slope).max() > 0.0):
            return None
        index, path = _find_path(terms, slot)
        return index, path, program.nodes[slot], slope, value


def _find_path(terms: Terms, slot: int) -> tuple[int, tuple[int, ...]]:
    """Returns the term and the path of an instruction of a whole program."""
    for index, term in enumerate(terms):
        paths = [path for path, _ in iter_nodes(term)]
        if slot < len(paths):
            return index, paths[slot]
        slot -= len(paths)
    raise AssertionError("The program has another number of instructions.")


def _combine(kind: str, node: Tree, tree: Tree, scale: float, offset: float, *, is_term: bool) -> Tree:
    scaled: Tree = ("*", ("c", scale), tree)
    match kind:
        case "add":
            return ("+", node, scaled)
        case "factor":
            return ("*", node, ("+", ("c", 1.0), scaled))
        case "multiply":
            return ("*", node, tree) if is_term else ("*", ("*", ("c", scale), node), tree)
        case "divide":
            return ("/", node, tree) if is_term else ("/", ("*", ("c", scale), node), tree)
    return tree if is_term else ("+", ("c", offset), scaled)


def _replace(terms: Terms, index: int, path: tuple[int, ...], new: Tree) -> Terms:
    return (*terms[:index], replace_node(terms[index], path, new), *terms[index + 1 :])


def _compute_gains(effects: Array, target: Array, basis: Array) -> tuple[Array, Array]:
    """Returns by how much each effect lowers the squared error, and its best scale."""
    inner = effects @ basis
    squares = np.einsum("ij,ij->i", effects, effects)
    own = squares - np.einsum("ij,ij->i", inner, inner)
    products = effects @ target
    is_usable = np.isfinite(own) & np.isfinite(products) & (own > 1e-9 * squares)
    safe_own = np.where(is_usable, np.maximum(own, 1e-300), 1.0)
    safe_products = np.where(is_usable, products, 0.0)
    return safe_products**2 / safe_own, safe_products / safe_own


def _get_best(gains: Array) -> list[int]:
    return [int(index) for index in np.argsort(-gains)[:_NUM_GROWN] if gains[index] > 0.0]


__all__ = ["Individual", "Library", "Mover", "Terms"]

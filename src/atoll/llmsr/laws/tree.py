"""Expression trees of the law search: nested tuples, which are fast to build, compare and hash.

A tree is a variable ("x", index), a constant ("c", value), or an operation with one or two arguments. The names of the
operations are those of `fit.expression`.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from atoll.candidate import JSON
from atoll.llmsr import fit
from atoll.llmsr.fit.expression import BINARY, UNARY

type Array = npt.NDArray[np.float64]
type Columns = npt.NDArray[np.float64]  # one row per variable
type Tree = tuple[Any, ...]
type Path = tuple[int, ...]  # child positions from the root; each is 1 or 2

LEAVES = ("x", "c")
COMMUTATIVE = ("+", "*")
ZERO: Tree = ("c", 0.0)
ONE: Tree = ("c", 1.0)

APPLY: Mapping[str, Callable[..., Any]] = {name: op.apply for name, op in UNARY.items()} | {
    name: op.apply for name, op in BINARY.items()
}
# Operations that numpy writes with an extra constant: x**2 and 1/x.
_EXTRA_NODES = {"square": 1, "reciprocal": 1}


def has_constant(tree: Tree) -> bool:
    """Returns whether a tree has a constant."""
    return bool(tree[0] == "c" or (tree[0] != "x" and any(has_constant(argument) for argument in tree[1:])))


def count_constants(tree: Tree) -> int:
    return 1 if tree[0] == "c" else 0 if tree[0] == "x" else sum(count_constants(argument) for argument in tree[1:])


def compute_size(tree: Tree) -> int:
    """Returns the number of nodes of its text: operators, functions, variables and constants."""
    if tree[0] in LEAVES:
        return 1
    if _is_negated(tree):
        return 1 + compute_size(tree[2])
    return 1 + _EXTRA_NODES.get(tree[0], 0) + sum(compute_size(argument) for argument in tree[1:])


def _is_negated(tree: Tree) -> bool:
    """Returns whether a tree is printed with a minus sign: -1 times another."""
    return bool(tree[0] == "*" and tree[1] == ("c", -1.0))


def get_shape(tree: Tree) -> str:
    """Returns the structure without constants and without the order of sums and products."""
    if tree[0] == "x":
        return f"x{tree[1]}"
    if tree[0] == "c":
        return "c"
    arguments = [get_shape(argument) for argument in tree[1:]]
    if tree[0] in COMMUTATIVE:
        arguments.sort()
    return f"{tree[0]}({','.join(arguments)})"


def evaluate(tree: Tree, columns: Columns) -> Any:
    """Returns the values of a tree at every row; a number if it has no variable."""
    if tree[0] == "x":
        return columns[tree[1]]
    if tree[0] == "c":
        return tree[1]
    return APPLY[tree[0]](*(evaluate(argument, columns) for argument in tree[1:]))


def iter_nodes(tree: Tree, path: Path = ()) -> Iterator[tuple[Path, Tree]]:
    """Yields every node with its path, children first."""
    if tree[0] not in LEAVES:
        for position, argument in enumerate(tree[1:], 1):
            yield from iter_nodes(argument, (*path, position))
    yield path, tree


def replace_node(tree: Tree, path: Path, new: Tree) -> Tree:
    """Returns a tree with another node at a path."""
    if not path:
        return new
    position = path[0]
    return (*tree[:position], replace_node(tree[position], path[1:], new), *tree[position + 1 :])


def substitute(tree: Tree, variables: Sequence[Tree]) -> Tree:
    """Returns a tree with another tree for each variable."""
    if tree[0] == "x":
        return variables[tree[1]]
    return tree if tree[0] == "c" else (tree[0], *(substitute(argument, variables) for argument in tree[1:]))


def collect_constants(tree: Tree) -> list[float]:
    """Returns the constants in the order of `iter_nodes`."""
    return [node[1] for _, node in iter_nodes(tree) if node[0] == "c"]


def with_constants(tree: Tree, values: Iterator[float]) -> Tree:
    """Returns a tree with other constants, in the order of `collect_constants`."""
    return replace_constants(tree, (("c", value) for value in values))


def replace_constants(tree: Tree, nodes: Iterator[Tree]) -> Tree:
    """Returns a tree with a node for every constant, in the order of `collect_constants`."""
    if tree[0] == "c":
        return next(nodes)
    return tree if tree[0] == "x" else (tree[0], *(replace_constants(argument, nodes) for argument in tree[1:]))


# Simplification


def simplify(tree: Tree) -> Tree:
    """Returns an equal tree, with constants folded and a few identities applied."""
    if tree[0] in LEAVES:
        return tree
    op, *rest = tree
    arguments = [simplify(argument) for argument in rest]
    if all(argument[0] == "c" for argument in arguments):
        return _fold(op, [argument[1] for argument in arguments])
    return _simplify_unary(op, arguments[0]) if len(arguments) == 1 else _simplify_binary(op, *arguments)


def _fold(op: str, values: Sequence[float]) -> Tree:
    with np.errstate(all="ignore"):
        return ("c", float(APPLY[op](*map(np.float64, values))))


_INVERSES = {("log", "exp"), ("exp", "log"), ("square", "sqrt"), ("reciprocal", "reciprocal"), ("neg", "neg")}


def _simplify_unary(op: str, argument: Tree) -> Tree:
    if (op, argument[0]) in _INVERSES:
        return _as_tree(argument[1])
    if op == "neg":
        return simplify(("*", ("c", -1.0), argument))
    if op == "sqrt" and argument[0] == "square":
        return ("abs", argument[1])
    if op in ("abs", "square", "cos") and argument[0] in ("abs", "neg"):
        return _simplify_unary(op, argument[1])
    if op in ("sin", "cos") and argument[0] == "+" and argument[1][0] == "c":
        quarters = argument[1][1] / (0.5 * math.pi)
        if abs(quarters) < 1e6 and quarters == round(quarters):
            return _simplify_wave(op, argument[2], round(quarters) % 4)
    if op == "reciprocal" and argument[0] == "exp":
        return ("exp", simplify(("neg", argument[1])))
    if op == "reciprocal" and argument[0] == "/":
        return _simplify_binary("/", argument[2], argument[1])
    return (op, argument)


def _simplify_wave(op: str, argument: Tree, quarters: int) -> Tree:
    """Returns the sine or cosine of an argument plus some quarters of a turn."""
    waves = (("sin", 1.0), ("cos", 1.0), ("sin", -1.0), ("cos", -1.0))
    name, sign = waves[(quarters + (op == "cos")) % 4]
    return _simplify_binary("*", ("c", sign), (name, argument))


_POWERS: Mapping[float, Callable[[Tree], Tree]] = {
    1.0: lambda tree: tree,
    2.0: lambda tree: _simplify_unary("square", tree),
    0.5: lambda tree: _simplify_unary("sqrt", tree),
    -1.0: lambda tree: _simplify_unary("reciprocal", tree),
    -2.0: lambda tree: _simplify_unary("reciprocal", ("square", tree)),
    -0.5: lambda tree: _simplify_unary("reciprocal", ("sqrt", tree)),
}


def _as_tree(value: Any) -> Tree:
    return tuple(value)


def _simplify_binary(op: str, left: Tree, right: Tree) -> Tree:
    if left == right and not has_constant(left):
        match op:
            case "-":
                return ZERO
            case "/":
                return ONE
            case "*":
                return _simplify_unary("square", left)
    if op == "-" and right[0] == "c":
        return _simplify_binary("+", left, ("c", -right[1]))
    if op == "-" and right[0] == "*" and right[1][0] == "c":
        return _simplify_binary("+", left, _simplify_binary("*", ("c", -right[1][1]), right[2]))
    if op == "/" and right[0] == "c" and right[1] != 0.0:
        return _simplify_binary("*", ("c", 1.0 / right[1]), left)
    if op == "/" and right[0] == "reciprocal":
        return _simplify_binary("*", left, right[1])
    if op == "/" and left == ONE:
        return _simplify_unary("reciprocal", right)
    if op == "**" and right[0] == "c" and right[1] in _POWERS:
        return _POWERS[right[1]](left)
    if op in COMMUTATIVE and right[0] == "c":
        left, right = right, left
    if left[0] == "c":
        neutral = {"+": 0.0, "*": 1.0}.get(op)
        if neutral is not None and left[1] == neutral:
            return right
        if op in ("*", "/") and left[1] == 0.0:
            return ZERO
        if op in COMMUTATIVE and right[0] == op and right[1][0] == "c":  # join two constants
            return _simplify_binary(op, _fold(op, [left[1], right[1][1]]), right[2])
    if op == "*" and right[0] == "reciprocal":
        return _simplify_binary("/", left, right[1])
    if op == "*" and left[0] == "reciprocal":
        return _simplify_binary("/", right, left[1])
    if op == "*" and left[0] != "c" and right[0] == "*" and right[1][0] == "c":  # move the constant to the front
        return _simplify_binary("*", right[1], _simplify_binary("*", left, right[2]))
    if op == "*" and left[0] == "*" and left[1][0] == "c":
        return _simplify_binary("*", left[1], _simplify_binary("*", left[2], right))
    if op == "/" and left[0] == "*" and left[1][0] == "c":
        return _simplify_binary("*", left[1], _simplify_binary("/", left[2], right))
    if op == "/" and right[0] == "*" and right[1][0] == "c" and right[1][1] != 0.0:
        return _simplify_binary("*", ("c", 1.0 / right[1][1]), _simplify_binary("/", left, right[2]))
    return (op, left, right)


def merge_factors(tree: Tree) -> Tree:
    """Returns an equal tree in which every product is one fraction, and factors with the same base are one power.

    It is for printing: numpy takes longer for powers than for products.
    """
    if tree[0] in LEAVES:
        return tree
    tree = simplify((tree[0], *(merge_factors(argument) for argument in tree[1:])))
    if tree[0] not in ("*", "/", "reciprocal", "square"):
        return tree
    powers: dict[Tree, float] = {}
    scale = _collect_factors(tree, 1.0, powers)
    if not math.isfinite(scale) or scale == 0.0:
        return tree
    above = [_make_power(base, power) for base, power in powers.items() if power > 0.0]
    below = [_make_power(base, -power) for base, power in powers.items() if power < 0.0]
    numerator, denominator = _multiply(above), _multiply(below)
    merged: Tree = numerator if not below else ("/", numerator, denominator)
    if scale != 1.0:
        merged = ("/", ("c", scale), denominator) if below and not above else ("*", ("c", scale), merged)
    return merged if compute_size(merged) <= compute_size(tree) else tree


def _collect_factors(tree: Tree, exponent: float, powers: dict[Tree, float]) -> float:
    """Adds the factors of a power of a product to `powers`; returns its constant, NaN if it has none."""
    is_whole = exponent == round(exponent)
    match tree:
        case ("c", value) if value > 0.0 or (value and is_whole):
            with np.errstate(all="ignore"):
                return float(np.float64(value) ** exponent)
        case ("*", left, right) if is_whole:
            return _collect_factors(left, exponent, powers) * _collect_factors(right, exponent, powers)
        case ("/", left, right) if is_whole:
            return _collect_factors(left, exponent, powers) * _collect_factors(right, -exponent, powers)
        case ("reciprocal", argument):
            return _collect_factors(argument, -exponent, powers)
        case ("sqrt", argument):
            return _collect_factors(argument, 0.5 * exponent, powers)
        case ("square", argument) if is_whole:
            return _collect_factors(argument, 2.0 * exponent, powers)
        case ("**", base, ("c", power)) if is_whole:
            powers[base] = powers.get(base, 0.0) + power * exponent
            return 1.0
    powers[tree] = powers.get(tree, 0.0) + exponent
    return 1.0 if tree[0] != "c" else math.nan


def _make_power(base: Tree, power: float) -> Tree:
    return _POWERS[power](base) if power in _POWERS else ("**", base, ("c", power))


def _multiply(factors: Sequence[Tree]) -> Tree:
    product: Tree = ONE
    for factor in factors:
        product = factor if product == ONE else ("*", product, factor)
    return product


def strip_constants(tree: Tree) -> Tree:
    """Returns a term without an outer factor and offset: every term has a coefficient, and the sum an offset."""
    while True:
        tree = simplify(tree)
        if tree[0] in ("+", "-", "*") and tree[1][0] == "c":
            tree = tree[2]
        elif tree[0] == "/" and tree[1][0] == "c":
            tree = ("reciprocal", tree[2])
        else:
            return tree


def split_terms(tree: Tree) -> list[Tree]:
    """Returns the terms of a sum, without coefficients and offset."""
    tree = strip_constants(tree)
    if tree[0] in ("+", "-"):
        return split_terms(tree[1]) + split_terms(tree[2])
    return [] if tree[0] == "c" else [tree]


def normalize_terms(terms: Sequence[Tree]) -> tuple[Tree, ...]:
    """Returns the terms of a sum without duplicates, in a fixed order."""
    unique = {get_shape(part): part for term in terms for part in split_terms(term)}
    return tuple(unique[shape] for shape in sorted(unique))


# Conversion


def from_expression(node: fit.Expression, params: Sequence[float] = ()) -> Tree | None:
    """Returns an expression as a tree, with numbers for its parameters; None if it has other operations."""
    match node:
        case fit.Variable():
            return ("x", node.index)
        case fit.Constant():
            return ("c", node.value)
        case fit.Parameter():
            return ("c", float(params[node.index]) if node.index < len(params) else 1.0)
        case fit.Unary() | fit.Binary():
            arguments = [from_expression(argument, params) for argument in node.arguments]
            return None if None in arguments else (node.op, *arguments)
    return None


def to_text(tree: Tree, names: Sequence[str]) -> str:
    """Returns a tree as a Python expression with numpy."""
    return _Printer(names).format(tree, 0)


def to_data(tree: Tree) -> JSON:
    """Returns a tree as nested lists."""
    return [part if not isinstance(part, tuple) else to_data(part) for part in tree]


def from_data(data: Sequence[Any]) -> Tree:
    """Returns the tree from the data of `to_data`."""
    return tuple(from_data(part) if isinstance(part, list) else part for part in data)


_PRECEDENCE = {"+": 1, "-": 1, "*": 2, "/": 2, "neg": 3, "**": 4}


def _is_negative(tree: Tree) -> bool:
    """Returns whether a tree is a negative constant or has one as its first factor."""
    constant = tree[1] if tree[0] == "*" else tree
    return bool(constant[0] == "c" and constant[1] < 0.0)


class _Printer:
    """Writes a tree with as few parentheses as Python needs."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def format(self, tree: Tree, precedence: int) -> str:
        """Returns the text, in parentheses if its operator binds weaker than `precedence`."""
        if tree[0] == "x":
            return self._names[tree[1]]
        if tree[0] == "c":
            text = format_number(tree[1])
            return f"({text})" if text.startswith("-") and precedence else text
        text, own_precedence = self._format_operation(tree)
        return f"({text})" if own_precedence < precedence else text

    def _format_operation(self, tree: Tree) -> tuple[str, int]:
        op = tree[0]
        if op in ("square", "**"):
            exponent = "2" if op == "square" else self.format(tree[2], 5)
            return f"{self.format(tree[1], 5)}**{exponent}", 4
        if op == "reciprocal":
            return f"1/{self.format(tree[1], 3)}", 2
        if op == "neg" or _is_negated(tree):
            return f"-{self.format(tree[-1], 3)}", 2
        if op in _PRECEDENCE:
            own = _PRECEDENCE[op]
            left, right = tree[1], tree[2]
            if op == "+" and _is_negative(left) and not _is_negative(right):
                left, right = right, left
            if op == "+" and right[0] == "c" and right[1] < 0.0:
                op, right = "-", ("c", -right[1])
            elif op == "+" and _is_negative(right):
                op, right = "-", simplify(("*", ("c", -right[1][1]), right[2]))
            if op == "*" and _is_negative(tree):
                return f"{format_number(left[1])}*{self.format(right, own)}", 1
            spaced = f" {op} " if own == 1 else op
            return f"{self.format(left, own)}{spaced}{self.format(right, own + (op in ('-', '/')))}", own
        arguments = ", ".join(self.format(argument, 0) for argument in tree[1:])
        return f"np.{op}({arguments})", 9


def format_number(value: float) -> str:
    """Returns the shortest text with the same value; whole numbers without a point."""
    if not math.isfinite(value):
        return "np.nan"
    return str(int(value)) if value == int(value) and abs(value) < 1e6 else repr(value)

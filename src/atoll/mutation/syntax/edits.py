"""Edits of an expression: each takes a site and returns what shall stand there, or None where it cannot be done."""

import ast
from collections.abc import Callable, Sequence
from typing import NamedTuple

from atoll.mutation.syntax import kinds, numbers
from atoll.mutation.syntax.kinds import ARITHMETIC, NUMERIC, fits
from atoll.mutation.syntax.palette import COMPARISONS, Palette, called
from atoll.mutation.syntax.sites import Site
from atoll.mutation.syntax.trees import same
from atoll.mutation.syntax.vocabulary import unshadowed

_LOAD = ast.Load()


def constant(site: Site, palette: Palette) -> ast.expr | None:
    """Moves a number, or turns a truth round."""
    if isinstance(site.node, ast.Constant) and isinstance(site.node.value, bool):
        return ast.Constant(not site.node.value)
    value = numbers.value_of(site.node)
    if value is None:
        return None
    return numbers.literal(numbers.moved(palette.rng, value, site.demand))


def operator(site: Site, palette: Palette) -> ast.expr | None:
    """Exchanges an operator: of arithmetic, of a comparison, or `and` for `or`."""
    match site.node:
        case ast.BinOp(left, op, right) if isinstance(op, ARITHMETIC) and site.kind in NUMERIC:
            return ast.BinOp(left, palette.operator(right), right)
        case ast.Compare(left, [op], comparators) if isinstance(op, tuple(COMPARISONS)):
            if all(kinds.kind_of(each, site.names) in NUMERIC for each in (left, *comparators)):
                return ast.Compare(left, [palette.rng.choice(COMPARISONS)()], comparators)
            return ast.Compare(left, [ast.NotEq() if isinstance(op, ast.Eq) else ast.Eq()], comparators)
        case ast.BoolOp(op, values):
            return ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
    return None


def leaf(site: Site, palette: Palette) -> ast.expr | None:
    """Exchanges a leaf for another one in scope."""
    is_leaf = isinstance(site.node, ast.Name | ast.Constant | ast.Attribute) or (
        isinstance(site.node, ast.Subscript) and isinstance(site.node.value, ast.Name)
    )
    return palette.leaf() if is_leaf or numbers.value_of(site.node) is not None else None


def wrapping(site: Site, palette: Palette) -> ast.expr | None:
    """Puts a function or a sign around an expression."""
    if site.demand in ("bool", "mask"):
        return ast.UnaryOp(ast.Not(), site.node) if site.demand == "bool" else None
    if site.demand in ("text", "sequence") and site.kind == site.demand:
        return ast.Subscript(site.node, ast.Slice(None, None, numbers.literal(-1)), _LOAD)
    if not site.is_number():
        return None
    if palette.rng.random() < 0.15:
        return ast.UnaryOp(ast.USub(), site.node)
    made = palette.call(site.node)
    is_twice = isinstance(made, ast.Call) and isinstance(site.node, ast.Call) and same(made.func, site.node.func)
    return None if is_twice else made  # abs(abs(x)) is only longer


def term(site: Site, palette: Palette) -> ast.expr | None:
    """Adds a term, or a condition to a condition."""
    if site.demand == "bool":
        other = palette.comparison()
        op = ast.And() if palette.rng.random() < 0.5 else ast.Or()
        return ast.BoolOp(op, [site.node, other]) if other else None
    return _joined(site, palette, ("+", "-"))


def factor(site: Site, palette: Palette) -> ast.expr | None:
    """Multiplies, divides or raises to a power."""
    return _joined(site, palette, ("*", "/", "**", "//", "%"))


def bounding(site: Site, palette: Palette) -> ast.expr | None:
    """Takes the smaller or larger of an expression and another one."""
    if not site.is_number():
        return None
    by_element = site.demand == "array"
    found = unshadowed(palette.functions.paired_by_element if by_element else palette.functions.paired, site.names)
    other = palette.term()
    return called(palette.rng.choice(found), site.node, other) if found and other else None


def shrinking(site: Site, palette: Palette) -> ast.expr | None:
    """Leaves one part of an expression, or a leaf instead of it."""
    parts: Sequence[ast.expr] = ()
    match site.node:
        case ast.BoolOp(op, values) if len(values) > 2:
            gone = palette.rng.randrange(len(values))
            return ast.BoolOp(op, [each for place, each in enumerate(values) if place != gone])
        case ast.BinOp(left, _, right):
            parts = (left, right)
        case ast.UnaryOp(operand=inner):
            parts = (inner,)
        case ast.Call(args=arguments):
            parts = arguments
        case ast.IfExp(_, body, orelse):
            parts = (body, orelse)
        case ast.BoolOp(_, values):
            parts = values
    fitting = [part for part in parts if fits(kinds.kind_of(part, site.names), site.demand)]
    if not fitting or palette.rng.random() < 0.1:
        return palette.leaf() if isinstance(site.node, ast.BinOp | ast.Call | ast.IfExp) else None
    return palette.rng.choice(fitting)


def swapping(site: Site, palette: Palette) -> ast.expr | None:
    """Exchanges the two sides of an operation, comparison or choice."""
    match site.node:
        case ast.BinOp(left, ast.Pow() as op, right) if palette.is_small_power(left):
            return ast.BinOp(right, op, left)
        case ast.BinOp(left, ast.Sub() | ast.Div() | ast.FloorDiv() | ast.Mod() as op, right) if site.kind != "text":
            return ast.BinOp(right, op, left)
        case ast.Compare(left, [op], [right]) if not isinstance(op, ast.In | ast.NotIn):
            return ast.Compare(right, [op], [left])
        case ast.IfExp(test, body, orelse):
            return ast.IfExp(test, orelse, body)
    return None


def choosing(site: Site, palette: Palette) -> ast.expr | None:
    """Makes an expression hold only under a condition."""
    if not site.is_number():
        return None
    other = palette.leaf()
    if site.demand == "array":
        left, right, where = palette.leaf(), palette.leaf(), palette.functions.where
        if where is None or not (left and right and other) or numbers.value_of(left) is not None or same(left, right):
            return None
        return called(where, ast.Compare(left, [palette.rng.choice(COMPARISONS)()], [right]), other, site.node)
    test = palette.comparison()
    if test is None or other is None:
        return None
    first, second = (site.node, other) if palette.rng.random() < 0.5 else (other, site.node)
    return ast.IfExp(test, first, second)


def parting(site: Site, palette: Palette) -> ast.expr | None:
    """Lets an array be something else where it is itself above or below a number: a threshold, by element."""
    where, is_leaf = palette.functions.where, isinstance(site.node, ast.Constant | ast.Name)
    if site.demand != "array" or site.kind != "array" or where is None or (is_leaf and palette.rng.random() < 0.5):
        return None
    bound = numbers.of_any_size(palette.rng)
    test = ast.Compare(site.node, [palette.rng.choice(COMPARISONS[:4])()], [numbers.literal(bound)])
    # What stands for values beyond a bound is mostly of their size.
    level = numbers.literal(numbers.shortened(bound * palette.rng.uniform(0.0, 1.5), 2))
    other = level if palette.rng.random() < 0.6 else palette.term()
    return called(where, test, other, site.node) if other else None


def _joined(site: Site, palette: Palette, allowed: Sequence[str]) -> ast.expr | None:
    other = palette.term()
    if not site.is_number() or other is None:
        return None
    left, right = (site.node, other) if palette.rng.random() < 0.7 else (other, site.node)
    return palette.operation(left, right, allowed)


class Edit(NamedTuple):
    """An edit with its weight.

    Attributes:
        growth: 1 if it makes the program larger, -1 if smaller.
    """

    name: str
    weight: float
    growth: int
    change: Callable[[Site, Palette], ast.expr | None]


# Tried on the problems of tests/mutation/test_reach.py, 12 and 8 other seeds: with twice the conditions and less
# shrinking the law of kinetic energy took 818 evaluations in the median instead of 363.
EDITS: Sequence[Edit] = (
    Edit("constant", 3.0, 0, constant),
    Edit("operator", 2.0, 0, operator),
    Edit("leaf", 3.0, 0, leaf),
    Edit("swap", 0.5, 0, swapping),
    Edit("shrink", 3.0, -1, shrinking),
    Edit("wrap", 0.6, 1, wrapping),
    Edit("term", 2.0, 1, term),
    Edit("factor", 2.0, 1, factor),
    Edit("bound", 0.1, 1, bounding),
    Edit("choice", 0.2, 1, choosing),
    Edit("threshold", 1.5, 1, parting),
)

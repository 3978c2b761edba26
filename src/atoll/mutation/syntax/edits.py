"""Edits of expressions. Each returns the new expression for a site, or None if it does not apply."""

import ast
from collections.abc import Callable, Sequence
from typing import NamedTuple

from atoll.mutation.syntax import numbers, value_kinds
from atoll.mutation.syntax.expression_sampler import COMPARISONS, ExpressionSampler, make_call
from atoll.mutation.syntax.sites import Site
from atoll.mutation.syntax.source_text import is_same
from atoll.mutation.syntax.value_kinds import ARITHMETIC_OPERATORS, NUMERIC_KINDS, filter_unshadowed, fits

_LOAD = ast.Load()


def move_constant(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Moves a number, or negates a boolean."""
    if isinstance(site.node, ast.Constant) and isinstance(site.node.value, bool):
        return ast.Constant(not site.node.value)
    value = numbers.parse_number(site.node)
    if value is None:
        return None
    return numbers.make_literal(numbers.move_number(sampler.rng, value, site.required_kind))


def replace_operator(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Replaces an operator: of arithmetic, of a comparison, or `and` by `or`."""
    match site.node:
        case ast.BinOp(left, op, right) if isinstance(op, ARITHMETIC_OPERATORS) and site.kind in NUMERIC_KINDS:
            return ast.BinOp(left, sampler.draw_operator(right), right)
        case ast.Compare(left, [op], comparators) if isinstance(op, tuple(COMPARISONS)):
            if all(value_kinds.infer_kind(operand, site.names) in NUMERIC_KINDS for operand in (left, *comparators)):
                return ast.Compare(left, [sampler.rng.choice(COMPARISONS)()], comparators)
            return ast.Compare(left, [ast.NotEq() if isinstance(op, ast.Eq) else ast.Eq()], comparators)
        case ast.BoolOp(op, values):
            return ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
    return None


def replace_leaf(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Replaces a leaf by another one in scope."""
    is_item = isinstance(site.node, ast.Subscript) and isinstance(site.node.value, ast.Name)
    is_leaf = is_item or isinstance(site.node, ast.Name | ast.Constant | ast.Attribute)
    return sampler.draw_leaf() if is_leaf or numbers.parse_number(site.node) is not None else None


def wrap_expression(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Puts a function or a sign around an expression."""
    if site.required_kind in ("bool", "mask"):
        return ast.UnaryOp(ast.Not(), site.node) if site.required_kind == "bool" else None
    if site.required_kind in ("text", "sequence") and site.kind == site.required_kind:
        return ast.Subscript(site.node, ast.Slice(None, None, numbers.make_literal(-1)), _LOAD)
    if not site.is_number():
        return None
    if sampler.rng.random() < 0.15:
        return ast.UnaryOp(ast.USub(), site.node)
    call = sampler.draw_call(site.node)
    is_repeated = isinstance(call, ast.Call) and isinstance(site.node, ast.Call) and is_same(call.func, site.node.func)
    return None if is_repeated else call  # abs(abs(x)) is only longer


def add_term(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Adds a term, or a condition to a condition."""
    if site.required_kind == "bool":
        other = sampler.draw_comparison()
        op = ast.And() if sampler.rng.random() < 0.5 else ast.Or()
        return ast.BoolOp(op, [site.node, other]) if other else None
    return _add_operand(site, sampler, ("+", "-"))


def add_factor(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Multiplies, divides or raises to a power."""
    return _add_operand(site, sampler, ("*", "/", "**", "//", "%"))


def bound_expression(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Takes the minimum or maximum of an expression and another one."""
    if not site.is_number():
        return None
    available = sampler.functions
    names = available.elementwise_pairwise if site.required_kind == "array" else available.pairwise
    functions = filter_unshadowed(names, site.names)
    other = sampler.draw_term()
    return make_call(sampler.rng.choice(functions), site.node, other) if functions and other else None


def shrink_expression(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Replaces an expression by one of its parts, or by a leaf."""
    parts: Sequence[ast.expr] = ()
    match site.node:
        case ast.BoolOp(op, values) if len(values) > 2:
            removed = sampler.rng.randrange(len(values))
            return ast.BoolOp(op, [value for index, value in enumerate(values) if index != removed])
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
    candidates = [part for part in parts if fits(value_kinds.infer_kind(part, site.names), site.required_kind)]
    if not candidates or sampler.rng.random() < 0.1:
        return sampler.draw_leaf() if isinstance(site.node, ast.BinOp | ast.Call | ast.IfExp) else None
    return sampler.rng.choice(candidates)


def swap_operands(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Swaps the two sides of an operation, comparison or conditional."""
    match site.node:
        case ast.BinOp(left, ast.Pow() as op, right) if sampler.is_small_power(left):
            return ast.BinOp(right, op, left)
        case ast.BinOp(left, ast.Sub() | ast.Div() | ast.FloorDiv() | ast.Mod() as op, right) if site.kind != "text":
            return ast.BinOp(right, op, left)
        case ast.Compare(left, [op], [right]) if not isinstance(op, ast.In | ast.NotIn):
            return ast.Compare(right, [op], [left])
        case ast.IfExp(test, body, orelse):
            return ast.IfExp(test, orelse, body)
    return None


def make_conditional(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Makes an expression apply only under a condition."""
    if not site.is_number():
        return None
    other = sampler.draw_leaf()
    if site.required_kind == "array":
        left, right, where_function = sampler.draw_leaf(), sampler.draw_leaf(), sampler.functions.where
        if where_function is None or not (left and right and other):
            return None
        if numbers.parse_number(left) is not None or is_same(left, right):
            return None
        test = ast.Compare(left, [sampler.rng.choice(COMPARISONS)()], [right])
        return make_call(where_function, test, other, site.node)
    condition = sampler.draw_comparison()
    if condition is None or other is None:
        return None
    first, second = (site.node, other) if sampler.rng.random() < 0.5 else (other, site.node)
    return ast.IfExp(condition, first, second)


def add_threshold(site: Site, sampler: ExpressionSampler) -> ast.expr | None:
    """Replaces the elements of an array that are above or below a threshold.

    Published rules for online bin packing have this form; see bench/results/packing.md.
    """
    where_function, is_leaf = sampler.functions.where, isinstance(site.node, ast.Constant | ast.Name)
    if site.required_kind != "array" or site.kind != "array" or where_function is None:
        return None
    if is_leaf and sampler.rng.random() < 0.5:
        return None
    bound = numbers.draw_any_scale(sampler.rng)
    test = ast.Compare(site.node, [sampler.rng.choice(COMPARISONS[:4])()], [numbers.make_literal(bound)])
    # Good replacements for values beyond a bound mostly have a similar size.
    level = numbers.make_literal(numbers.round_digits(bound * sampler.rng.uniform(0.0, 1.5), 2))
    other = level if sampler.rng.random() < 0.6 else sampler.draw_term()
    return make_call(where_function, test, other, site.node) if other else None


def _add_operand(site: Site, sampler: ExpressionSampler, allowed_operators: Sequence[str]) -> ast.expr | None:
    other = sampler.draw_term()
    if not site.is_number() or other is None:
        return None
    left, right = (site.node, other) if sampler.rng.random() < 0.7 else (other, site.node)
    return sampler.combine(left, right, allowed_operators)


class ExpressionEdit(NamedTuple):
    """Edit of an expression with its weight.

    Attributes:
        growth: 1 if it makes the program larger, -1 if smaller.
    """

    name: str
    weight: float
    growth: int
    apply: Callable[[Site, ExpressionSampler], ast.expr | None]


# Tuned on the problems of tests/mutation/test_syntax_search.py with 20 other seeds. With twice the conditions and less
# shrinking, the law of kinetic energy took a median of 818 evaluations instead of 363.
EXPRESSION_EDITS: Sequence[ExpressionEdit] = (
    ExpressionEdit("constant", 3.0, 0, move_constant),
    ExpressionEdit("operator", 2.0, 0, replace_operator),
    ExpressionEdit("leaf", 3.0, 0, replace_leaf),
    ExpressionEdit("swap", 0.5, 0, swap_operands),
    ExpressionEdit("shrink", 3.0, -1, shrink_expression),
    ExpressionEdit("wrap", 0.6, 1, wrap_expression),
    ExpressionEdit("term", 2.0, 1, add_term),
    ExpressionEdit("factor", 2.0, 1, add_factor),
    ExpressionEdit("bound", 0.1, 1, bound_expression),
    ExpressionEdit("choice", 0.2, 1, make_conditional),
    ExpressionEdit("threshold", 1.5, 1, add_threshold),
)

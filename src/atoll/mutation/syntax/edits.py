"""Edits of expressions, and random expressions for a site: leaves, terms, comparisons and calls."""

import ast
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from atoll.mutation.syntax import numbers, value_kinds
from atoll.mutation.syntax.name_usage import NameUsage
from atoll.mutation.syntax.sites import Site
from atoll.mutation.syntax.source_text import is_same
from atoll.mutation.syntax.value_kinds import (
    ARITHMETIC_OPERATORS,
    NUMERIC_KINDS,
    AvailableFunctions,
    Kind,
    NameKinds,
    Vocabulary,
    filter_unshadowed,
    fits,
)

OPERATORS: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "**": ast.Pow, "//": ast.FloorDiv, "%": ast.Mod,
}  # fmt: skip
_INTEGER_OPERATORS = ("+", "-", "*", "//", "%")
COMPARISONS: Sequence[type[ast.cmpop]] = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_LOAD = ast.Load()


@dataclass(frozen=True, slots=True)
class ExpressionSampler:
    """Draws expressions for one site.

    Attributes:
        names: Names in scope at the site.
        required_kind: Kind of value that the site needs.
        usage: Usage of names in the function around it.
    """

    rng: Random
    vocabulary: Vocabulary
    functions: AvailableFunctions
    names: NameKinds
    required_kind: Kind
    usage: NameUsage

    def draw_leaf(self) -> ast.expr | None:
        """Draws a name, an item of one, or a number."""
        if self.required_kind == "bool":
            flags = [name for name, kind in self.names.items() if kind == "bool"]
            return _make_name(self.rng.choice(flags)) if flags and self.rng.random() < 0.3 else self.draw_comparison()
        usable_names = [name for name, kind in self.names.items() if self._is_usable(kind)]
        if self.required_kind not in NUMERIC_KINDS:
            return self._read_name(self.rng.choice(usable_names)) if usable_names else None
        # If the evaluator fits parameters, a new number is rarely useful.
        has_parameters = any(self.names[name] == "vector" for name in usable_names)
        if not usable_names or self.rng.random() < (0.1 if has_parameters else 0.3):
            return numbers.make_literal(numbers.draw_number(self.rng, self.vocabulary.constants, self.required_kind))
        return self._read_name(self.rng.choice(usable_names))

    def draw_term(self) -> ast.expr | None:
        """Draws a leaf, a call of a leaf, or an operation on two leaves; often times a fitted parameter."""
        expression = self._draw_composition()
        parameter_names = [name for name in self.vocabulary.parameters if self.names.get(name) == "vector"]
        if expression is None or not parameter_names or self.required_kind not in ("number", "array"):
            return expression
        if self.rng.random() < 0.4:
            return expression
        scale = self._read_name(self.rng.choice(parameter_names))
        return scale if numbers.parse_number(expression) is not None else ast.BinOp(scale, ast.Mult(), expression)

    def _draw_composition(self) -> ast.expr | None:
        draw = self.rng.random()
        first = self.draw_leaf()
        if first is None or self.required_kind not in NUMERIC_KINDS or draw < 0.5:
            return first
        if numbers.parse_number(first) is not None:
            return first  # a function of a literal is only another number
        second = self.draw_call(first) if draw < 0.75 else self.draw_leaf()
        if second is None or is_same(first, second):
            return first
        if draw < 0.75:
            return second
        return self.combine(first, second) if draw < 0.875 else self.combine(second, first)

    def draw_comparison(self) -> ast.expr | None:
        """Draws a comparison of a variable with another number."""
        names = [name for name, kind in self.names.items() if kind in value_kinds.SCALAR_KINDS or kind == "sequence"]
        if not names:
            return None
        number_sampler = self.with_kind("number")
        left, right = number_sampler._read_name(self.rng.choice(names)), number_sampler.draw_leaf()
        if right is None or is_same(left, right):
            return None
        return ast.Compare(left, [self.rng.choice(COMPARISONS)()], [right])

    def combine(self, left: ast.expr, right: ast.expr, allowed_operators: Sequence[str] = tuple(OPERATORS)) -> ast.expr:
        """Joins two expressions by a random operator."""
        return ast.BinOp(left, self.draw_operator(right, allowed_operators), right)

    def draw_operator(self, right: ast.expr, allowed_operators: Sequence[str] = tuple(OPERATORS)) -> ast.operator:
        """Draws an operator that is valid before this operand."""
        is_integer, is_small = self.required_kind == "integer", self.is_small_power(right)
        candidates = [
            symbol
            for symbol in self.vocabulary.operators
            if symbol in allowed_operators
            and (symbol in _INTEGER_OPERATORS or not is_integer)
            and (symbol != "**" or is_small)
        ]
        return OPERATORS[self.rng.choice(candidates) if candidates else "+"]()

    def draw_call(self, argument: ast.expr) -> ast.expr | None:
        """Draws a function of one argument and calls it."""
        match self.required_kind:
            case "number":
                functions = filter_unshadowed(self.functions.scalar, self.names)
            case "array":
                functions = filter_unshadowed(self.functions.elementwise, self.names)
            case "integer":
                functions = ["abs"] if "abs" in filter_unshadowed(self.functions.elementwise, self.names) else []
            case _:
                return None
        return make_call(self.rng.choice(functions), argument) if functions else None

    def with_kind(self, required_kind: Kind) -> "ExpressionSampler":
        return ExpressionSampler(self.rng, self.vocabulary, self.functions, self.names, required_kind, self.usage)

    def _is_usable(self, kind: Kind) -> bool:
        if value_kinds.fits(kind, self.required_kind):
            return True
        if self.required_kind in ("number", "array"):
            is_reducible = kind == "array" and bool(self.functions.reductions)
            return kind in ("vector", "sequence", "items", "text") or is_reducible
        return self.required_kind == "integer" and kind in ("sequence", "items", "text")

    def _read_name(self, name: str) -> ast.expr:
        """Returns an expression of the required kind that reads a name."""
        kind, node = self.names[name], _make_name(name)
        if value_kinds.fits(kind, self.required_kind):
            return node
        match kind:
            case "vector":
                return _make_item(node, self._draw_position(name))
            case "array":
                return make_call(self.rng.choice(self.functions.reductions), node)
            case "sequence" if self.required_kind != "integer":
                return self._read_sequence(node)
        return make_call("len", node)

    def _read_sequence(self, node: ast.Name) -> ast.expr:
        draw = self.rng.random()
        index_names = [name for name, kind in self.names.items() if kind == "index"]
        if index_names and draw < 0.5:
            return ast.Subscript(node, _make_name(self.rng.choice(index_names)), _LOAD)
        if draw < 0.6:
            return _make_item(node, self._draw_position(node.id))
        if draw < 0.75:
            return make_call(ast.Attribute(node, "count", _LOAD), ast.Constant(self.rng.choice((0, 1, 1, 2, 2))))
        functions = filter_unshadowed(self.functions.sequence_functions, self.names)
        return make_call(self.rng.choice(functions), node) if functions else _make_item(node, 0)

    def _draw_position(self, name: str) -> int:
        """Draws an index for a vector or sequence: mostly an unused parameter, or a small number."""
        used = self.usage.indices.get(name, set())
        if name in self.vocabulary.parameters:
            limit = max(self.vocabulary.num_parameters, max(used, default=0) + 1)
            unused = [index for index in range(limit) if index not in used]
            return unused[0] if unused and self.rng.random() < 0.7 else self.rng.randrange(limit)
        limit = max(3, max(used, default=0) + 2)
        return self.rng.randrange(-1, limit)

    def is_small_power(self, right: ast.expr) -> bool:
        """Returns whether a power with this exponent is cheap. Integers to large powers never end."""
        value = numbers.parse_number(right)
        if value is not None:
            return abs(value) <= 5
        kind = value_kinds.infer_kind(right, self.names)
        match right:
            case ast.Subscript(ast.Name(name)) if self.names.get(name) == "vector":
                return kind == "number"
        return kind == "array"


def make_call(function: str | ast.expr, *arguments: ast.expr) -> ast.Call:
    """Returns a call of a function by its dotted name."""
    if isinstance(function, ast.expr):
        return ast.Call(function, list(arguments), [])
    owner, _, name = function.rpartition(".")
    return ast.Call(ast.Attribute(_make_name(owner), name, _LOAD) if owner else _make_name(name), list(arguments), [])


def _make_name(name: str) -> ast.Name:
    return ast.Name(name, _LOAD)


def _make_item(node: ast.Name, index: int) -> ast.Subscript:
    return ast.Subscript(node, numbers.make_literal(index), _LOAD)


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

"""Random expressions for a site: leaves, terms, comparisons and calls."""

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from atoll.mutation.syntax import numbers, value_kinds
from atoll.mutation.syntax.name_usage import NameUsage
from atoll.mutation.syntax.source_text import is_same
from atoll.mutation.syntax.value_kinds import (
    NUMERIC_KINDS,
    AvailableFunctions,
    Kind,
    NameKinds,
    Vocabulary,
    filter_unshadowed,
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

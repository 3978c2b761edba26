"""Replaceable expressions inside an expression site, each with its required kind of value."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from atoll.mutation.syntax import numbers, value_kinds
from atoll.mutation.syntax.name_usage import NameUsage
from atoll.mutation.syntax.source_text import SourceText, list_nodes
from atoll.mutation.syntax.value_kinds import (
    ARITHMETIC_OPERATORS,
    INTEGER_KINDS,
    NUMERIC_KINDS,
    SCALAR_KINDS,
    Kind,
    NameKinds,
    Vocabulary,
)

_FROZEN = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await, ast.JoinedStr)
_NUMBER_FUNCTIONS = frozenset({"round", "float", "int", "pow"})


class Site(NamedTuple):
    """Expression that may be replaced.

    Attributes:
        node: The expression.
        kind: Its kind of value.
        required_kind: Kind of value that a replacement needs.
        names: Names in scope.
    """

    node: ast.expr
    kind: Kind
    required_kind: Kind
    names: NameKinds

    def is_number(self) -> bool:
        """Returns whether arithmetic may use it. An unknown kind counts as a number if one is required."""
        return self.required_kind in NUMERIC_KINDS and (self.kind in NUMERIC_KINDS or self.kind == "other")


def find_sites(root: ast.expr, required_kind: Kind, names: NameKinds) -> Sequence[Site]:
    """Returns all sites of an expression; none if it binds names, suspends, or has an f-string."""
    if any(isinstance(node, _FROZEN) for node in list_nodes(root)):
        return ()
    collector = SiteCollector()
    _visit(root, required_kind, names, collector)
    return collector.sites


class SiteCollector:
    """Collected sites, and a cache of kinds."""

    __slots__ = ("_kinds", "sites")

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self._kinds: dict[ast.expr, Kind] = {}

    def get_kind(self, node: ast.expr, names: NameKinds) -> Kind:
        return value_kinds.infer_kind(node, names, self._kinds)


def _visit(node: ast.expr, required: Kind, names: NameKinds, collector: SiteCollector) -> None:
    kind = collector.get_kind(node, names)
    if required != "other" and kind not in ("numpy", "math", "function"):
        collector.sites.append(Site(node, kind, required, names))
    visitor = _VISITORS.get(type(node))
    if visitor is not None and numbers.parse_number(node) is None:
        visitor(node, kind, required, names, collector)


def _visit_same_kind(node: ast.expr, names: NameKinds, collector: SiteCollector) -> None:
    """Visits an expression whose replacement must keep its kind."""
    kind = collector.get_kind(node, names)
    _visit(node, "integer" if kind == "index" else kind, names, collector)


def _visit_binary(node: ast.BinOp, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector) -> None:
    is_number = kind in NUMERIC_KINDS and required in NUMERIC_KINDS and isinstance(node.op, ARITHMETIC_OPERATORS)
    sides = [node.left, node.right]
    if isinstance(node.op, ast.Pow) and collector.get_kind(node.right, names) in SCALAR_KINDS:
        sides = [node.left]
        _visit_power(node.right, names, collector)
    for side in sides:
        if is_number and collector.get_kind(side, names) in NUMERIC_KINDS | {"other"}:
            _visit(side, required, names, collector)
        else:
            _visit_same_kind(side, names, collector)


def _visit_power(node: ast.expr, names: NameKinds, collector: SiteCollector) -> None:
    """Visits an exponent. A number stays small, because a large power of integers never ends."""
    if numbers.parse_number(node) is not None:
        collector.sites.append(Site(node, "number", "power", names))
    elif isinstance(node, ast.Subscript):
        _visit(node, "number", names, collector)


def _visit_unary(node: ast.UnaryOp, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector) -> None:
    if isinstance(node.op, ast.Not) or required not in NUMERIC_KINDS:
        _visit_same_kind(node.operand, names, collector)
    else:
        _visit(node.operand, required, names, collector)


def _visit_comparison(
    node: ast.Compare, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector
) -> None:
    sides = [node.left, *node.comparators]
    side_kinds = [collector.get_kind(side, names) for side in sides]
    if isinstance(node.ops[0], ast.Is | ast.IsNot):
        return
    is_number = all(side_kind in NUMERIC_KINDS for side_kind in side_kinds)
    for side in sides:
        if is_number and kind in ("bool", "mask"):
            _visit(side, "array" if "array" in side_kinds else "number", names, collector)
        else:
            _visit_same_kind(side, names, collector)


def _visit_bool_op(node: ast.BoolOp, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector) -> None:
    for value in node.values:
        _visit_same_kind(value, names, collector)


def _visit_conditional(node: ast.IfExp, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector) -> None:
    _visit_same_kind(node.test, names, collector)
    for branch in (node.body, node.orelse):
        _visit(branch, required if kind in NUMERIC_KINDS else collector.get_kind(branch, names), names, collector)


def _visit_call(node: ast.Call, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "tunable" or (isinstance(node.func, ast.Attribute) and node.func.attr == "tunable"):
        return  # only the tuner changes its value and bounds
    owner: Kind = collector.get_kind(node.func.value, names) if isinstance(node.func, ast.Attribute) else "other"
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
        _visit_same_kind(node.func.value, names, collector)
    is_extreme_of_array = name in ("min", "max") and required == "array"
    for arg in (*node.args, *(keyword.value for keyword in node.keywords)):
        argument_kind = collector.get_kind(arg, names)
        if name == "range" and argument_kind in SCALAR_KINDS:
            _visit(arg, "integer", names, collector)
        elif argument_kind in SCALAR_KINDS and (name in _NUMBER_FUNCTIONS or is_extreme_of_array):
            _visit(arg, "number", names, collector)
        elif argument_kind in SCALAR_KINDS and name in ("abs", "min", "max") and required in NUMERIC_KINDS:
            _visit(arg, required, names, collector)
        elif argument_kind in SCALAR_KINDS and owner in ("math", "numpy"):
            keeps_array = owner == "numpy" and required == "array"
            _visit(arg, required if keeps_array else _loosen_kind(argument_kind, owner), names, collector)
        else:
            _visit_same_kind(arg, names, collector)


def _loosen_kind(kind: Kind, owner: Kind) -> Kind:
    """Returns the kind for an argument of a module function. numpy takes sizes, so integers stay integers there."""
    return "integer" if kind in INTEGER_KINDS and owner == "numpy" else "number"


def _visit_subscript(
    node: ast.Subscript, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector
) -> None:
    if not isinstance(node.value, ast.Name):
        _visit_same_kind(node.value, names, collector)
    elif names.get(node.value.id) == "vector" and numbers.parse_number(node.slice) is not None:
        return  # `params[0]` is a leaf: another index is another leaf
    match node.slice:
        case ast.Slice(lower, upper, step):
            parts = [part for part in (lower, upper, step) if part is not None]
        case ast.Tuple(elts):
            parts = [element for element in elts if not isinstance(element, ast.Slice)]
        case index:
            parts = [index]
    for part in parts:
        if collector.get_kind(part, names) in SCALAR_KINDS:
            _visit(part, "integer", names, collector)
        else:
            _visit_same_kind(part, names, collector)


def _visit_sequence(
    node: ast.Tuple | ast.List, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector
) -> None:
    for element in node.elts:
        _visit_same_kind(element, names, collector)


def _visit_comprehension(
    node: ast.ListComp | ast.GeneratorExp | ast.SetComp,
    kind: Kind,
    required: Kind,
    names: NameKinds,
    collector: SiteCollector,
) -> None:
    inner_names = value_kinds.bind_generators(node.generators, names)
    for generator in node.generators:
        _visit_same_kind(generator.iter, names if generator is node.generators[0] else inner_names, collector)
        for test in generator.ifs:
            _visit_same_kind(test, inner_names, collector)
    item_kind = collector.get_kind(node.elt, inner_names)
    _visit(node.elt, "number" if item_kind in SCALAR_KINDS else item_kind, inner_names, collector)


def _visit_lambda(node: ast.Lambda, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector) -> None:
    inner_names: NameKinds = {**names, **{argument.arg: "other" for argument in node.args.args}}
    _visit_same_kind(node.body, inner_names, collector)


def _visit_attribute(
    node: ast.Attribute, kind: Kind, required: Kind, names: NameKinds, collector: SiteCollector
) -> None:
    if not isinstance(node.value, ast.Name):
        _visit_same_kind(node.value, names, collector)


_VISITORS: Mapping[type[ast.expr], Callable[..., None]] = {
    ast.BinOp: _visit_binary, ast.UnaryOp: _visit_unary, ast.Compare: _visit_comparison, ast.BoolOp: _visit_bool_op,
    ast.IfExp: _visit_conditional, ast.Call: _visit_call, ast.Subscript: _visit_subscript, ast.Tuple: _visit_sequence,
    ast.List: _visit_sequence, ast.Lambda: _visit_lambda, ast.ListComp: _visit_comprehension,
    ast.GeneratorExp: _visit_comprehension, ast.SetComp: _visit_comprehension, ast.Attribute: _visit_attribute,
}  # fmt: skip


class ExpressionSite(NamedTuple):
    """Complete expression that may change: the value, test or iterable of a statement.

    Attributes:
        root: The expression.
        required_kind: Kind of value that the statement needs.
        names: Names in scope.
        usage: Usage of names in the function around it.
    """

    root: ast.expr
    required_kind: Kind
    names: NameKinds
    usage: NameUsage


class StatementSite(NamedTuple):
    """Statement that may get new statements around it.

    Attributes:
        names: Names in scope before it.
        expression_site: Its expression, if that may change.
        is_movable: Whether it may be removed: it is local, not the only statement, and does not end a loop.
    """

    statement: ast.stmt
    names: NameKinds
    usage: NameUsage
    expression_site: ExpressionSite | None
    is_movable: bool

    def is_removable(self) -> bool:
        """Returns whether the remaining code has all its names without this statement."""
        if not self.is_movable or isinstance(self.statement, ast.Return):
            return False
        if isinstance(self.statement, ast.Expr):
            return isinstance(self.statement.value, ast.Call)
        loop_target = self.statement.target if isinstance(self.statement, ast.For) else None
        stored_names = [node for node in list_nodes(self.statement) if isinstance(node, ast.Name) and not is_read(node)]
        return all(
            node is loop_target or node.id in self.names or node.id not in self.usage.loads for node in stored_names
        )

    def is_skippable(self) -> bool:
        """Returns whether it is one line that assigns to a name with a value."""
        match self.statement:
            case ast.Assign([ast.Name(name)]) | ast.AugAssign(ast.Name(name)):
                return name in self.names and self.statement.lineno == self.statement.end_lineno
        return False


def is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


@dataclass(slots=True)
class SiteIndex:
    """All sites of one source, filled by its blocks.

    Attributes:
        number_kind: Kind of a name of which only arithmetic is known: an array if the source uses numpy.
    """

    source_text: SourceText
    vocabulary: Vocabulary
    number_kind: Kind = "number"
    expression_sites: list[ExpressionSite] = field(default_factory=list)
    statement_sites: list[StatementSite] = field(default_factory=list)

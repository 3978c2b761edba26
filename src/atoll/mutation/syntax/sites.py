"""The expressions inside a place, each with the kind of value that may stand there."""

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from atoll.mutation.syntax import kinds, numbers
from atoll.mutation.syntax.kinds import ARITHMETIC, NUMERIC, SCALAR, WHOLE
from atoll.mutation.syntax.trees import nodes
from atoll.mutation.syntax.words import Kind, Names

_FROZEN = (ast.NamedExpr, ast.Yield, ast.YieldFrom, ast.Await, ast.JoinedStr)
_OF_NUMBERS = frozenset({"round", "float", "int", "pow"})


class Site(NamedTuple):
    """An expression that may be replaced.

    Attributes:
        node: The expression itself.
        kind: What it is.
        demand: What may stand there.
        names: What is in scope there.
    """

    node: ast.expr
    kind: Kind
    demand: Kind
    names: Names

    def is_number(self) -> bool:
        """Says whether arithmetic may be done with it: what is unknown is a number where one is wanted."""
        return self.demand in NUMERIC and (self.kind in NUMERIC or self.kind == "other")


def sites_of(root: ast.expr, demand: Kind, names: Names) -> Sequence[Site]:
    """Returns all sites of an expression; none if it binds names, suspends, or has an f-string, hard to write anew."""
    if any(isinstance(node, _FROZEN) for node in nodes(root)):
        return ()
    found = Found()
    _visit(root, demand, names, found)
    return found.sites


class Found:
    """The sites found so far, and the kinds of all that was read on the way."""

    __slots__ = ("_kinds", "sites")

    def __init__(self) -> None:
        self.sites: list[Site] = []
        self._kinds: dict[ast.expr, Kind] = {}

    def kind(self, node: ast.expr, names: Names) -> Kind:
        return kinds.kind_of(node, names, self._kinds)


def _visit(node: ast.expr, demand: Kind, names: Names, found: Found) -> None:
    kind = found.kind(node, names)
    if demand != "other" and kind not in ("numpy", "math", "function"):
        found.sites.append(Site(node, kind, demand, names))
    visitor = _VISITORS.get(type(node))
    if visitor is not None and numbers.value_of(node) is None:
        visitor(node, kind, demand, names, found)


def _visit_as_is(node: ast.expr, names: Names, found: Found) -> None:
    """Visits what must keep its kind."""
    kind = found.kind(node, names)
    _visit(node, "integer" if kind == "index" else kind, names, found)


def _binary(node: ast.BinOp, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    is_number = kind in NUMERIC and demand in NUMERIC and isinstance(node.op, ARITHMETIC)
    sides = [node.left, node.right]
    if isinstance(node.op, ast.Pow) and found.kind(node.right, names) in SCALAR:
        sides = [node.left]
        _power(node.right, names, found)
    for side in sides:
        if is_number and found.kind(side, names) in NUMERIC | {"other"}:
            _visit(side, demand, names, found)
        else:
            _visit_as_is(side, names, found)


def _power(node: ast.expr, names: Names, found: Found) -> None:
    """Visits what stands after `**`: a number stays a small one, since a large power of whole numbers never ends."""
    if numbers.value_of(node) is not None:
        found.sites.append(Site(node, "number", "power", names))
    elif isinstance(node, ast.Subscript):
        _visit(node, "number", names, found)


def _unary(node: ast.UnaryOp, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    if isinstance(node.op, ast.Not) or demand not in NUMERIC:
        _visit_as_is(node.operand, names, found)
    else:
        _visit(node.operand, demand, names, found)


def _comparison(node: ast.Compare, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    sides = [node.left, *node.comparators]
    inner = [found.kind(each, names) for each in sides]
    if isinstance(node.ops[0], ast.Is | ast.IsNot):
        return
    is_number = all(each in NUMERIC for each in inner)
    for side in sides:
        if is_number and kind in ("bool", "mask"):
            _visit(side, "array" if "array" in inner else "number", names, found)
        else:
            _visit_as_is(side, names, found)


def _junction(node: ast.BoolOp, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    for each in node.values:
        _visit_as_is(each, names, found)


def _choice(node: ast.IfExp, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    _visit_as_is(node.test, names, found)
    for each in (node.body, node.orelse):
        _visit(each, demand if kind in NUMERIC else found.kind(each, names), names, found)


def _call(node: ast.Call, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    if name == "tunable" or (isinstance(node.func, ast.Attribute) and node.func.attr == "tunable"):
        return  # its value and bounds are the tuner's
    owner: Kind = found.kind(node.func.value, names) if isinstance(node.func, ast.Attribute) else "other"
    if isinstance(node.func, ast.Attribute) and not isinstance(node.func.value, ast.Name):
        _visit_as_is(node.func.value, names, found)
    for arg in (*node.args, *(each.value for each in node.keywords)):
        inner = found.kind(arg, names)
        if name == "range" and inner in SCALAR:
            _visit(arg, "integer", names, found)
        elif inner in SCALAR and (name in _OF_NUMBERS or (name in ("min", "max") and demand == "array")):
            _visit(arg, "number", names, found)
        elif inner in SCALAR and name in ("abs", "min", "max") and demand in NUMERIC:
            _visit(arg, demand, names, found)
        elif inner in SCALAR and owner in ("math", "numpy"):
            _visit(arg, demand if owner == "numpy" and demand == "array" else _loosened(inner, owner), names, found)
        else:
            _visit_as_is(arg, names, found)


def _loosened(kind: Kind, owner: Kind) -> Kind:
    """Returns what a function of a module takes: numpy also takes sizes, so whole numbers stay whole there."""
    return "integer" if kind in WHOLE and owner == "numpy" else "number"


def _item(node: ast.Subscript, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    if not isinstance(node.value, ast.Name):
        _visit_as_is(node.value, names, found)
    elif names.get(node.value.id) == "vector" and numbers.value_of(node.slice) is not None:
        return  # `params[0]` is a leaf: another place in it is another leaf
    match node.slice:
        case ast.Slice(lower, upper, step):
            parts = [each for each in (lower, upper, step) if each is not None]
        case ast.Tuple(elts):
            parts = [each for each in elts if not isinstance(each, ast.Slice)]
        case index:
            parts = [index]
    for each in parts:
        if found.kind(each, names) in SCALAR:
            _visit(each, "integer", names, found)
        else:
            _visit_as_is(each, names, found)


def _display(node: ast.Tuple | ast.List, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    for each in node.elts:
        _visit_as_is(each, names, found)


def _comprehension(
    node: ast.ListComp | ast.GeneratorExp | ast.SetComp, kind: Kind, demand: Kind, names: Names, found: Found
) -> None:
    inner = kinds.inside(node.generators, names)
    for each in node.generators:
        _visit_as_is(each.iter, names if each is node.generators[0] else inner, found)
        for test in each.ifs:
            _visit_as_is(test, inner, found)
    item = found.kind(node.elt, inner)
    _visit(node.elt, "number" if item in SCALAR else item, inner, found)


def _lambda(node: ast.Lambda, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    inner: Names = {**names, **{each.arg: "other" for each in node.args.args}}
    _visit_as_is(node.body, inner, found)


def _attribute(node: ast.Attribute, kind: Kind, demand: Kind, names: Names, found: Found) -> None:
    if not isinstance(node.value, ast.Name):
        _visit_as_is(node.value, names, found)


_VISITORS: Mapping[type[ast.expr], Callable[..., None]] = {
    ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Compare: _comparison, ast.BoolOp: _junction, ast.IfExp: _choice,
    ast.Call: _call, ast.Subscript: _item, ast.Tuple: _display, ast.List: _display, ast.Lambda: _lambda,
    ast.ListComp: _comprehension, ast.GeneratorExp: _comprehension, ast.SetComp: _comprehension,
    ast.Attribute: _attribute,
}  # fmt: skip

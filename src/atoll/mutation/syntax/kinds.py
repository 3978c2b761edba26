"""What kind of value an expression has, guessed lightly: enough not to add a tuple to a number."""

import ast
from collections.abc import Callable, Mapping, Sequence

from atoll.mutation.syntax.words import LIST_METHODS, MAKERS, MATH, REDUCTIONS, RESULTS, TEXT_METHODS, Kind, Names

type Memo = dict[ast.expr, Kind] | None

WHOLE: frozenset[Kind] = frozenset({"index", "integer"})
SCALAR: frozenset[Kind] = WHOLE | {"number"}
NUMERIC: frozenset[Kind] = SCALAR | {"array"}
_FITS: Mapping[Kind, frozenset[Kind]] = {"integer": WHOLE, "number": SCALAR, "array": NUMERIC}
_BY_ELEMENT: frozenset[Kind] = frozenset({"array", "mask", "vector"})
_SAFE_ON_ANYTHING = (ast.Add, ast.Mult)  # strings and lists know them too
ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def fits(kind: Kind, demand: Kind) -> bool:
    """Says whether a value of this kind may stand where that one is wanted."""
    return kind == demand or kind in _FITS.get(demand, ())


def kind_of(node: ast.expr, names: Names, memo: Memo = None) -> Kind:
    """Guesses the kind of an expression from the kinds of the names in it; `other` when it cannot tell.

    A memo spares reading the parts again when they are asked for after the whole, in the same scope.
    """
    if memo is not None and (known := memo.get(node)) is not None:
        return known
    reader = _READERS.get(type(node))
    kind: Kind = reader(node, names, memo) if reader else "other"
    if memo is not None:
        memo[node] = kind
    return kind


def item_kinds(iterable: ast.expr, names: Names) -> Kind | tuple[Kind, ...]:
    """Guesses what iterating gives; a tuple of kinds where each item is unpacked."""
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.args:
        inner = [item_kinds(arg, names) for arg in iterable.args]
        first = inner[0]
        flat: list[Kind] = [each if isinstance(each, str) else "other" for each in inner]
        match iterable.func.id:
            case "range":
                return "index"
            case "enumerate":
                return ("index", flat[0])
            case "zip":
                return tuple(flat)
            case "sorted" | "reversed" | "list" | "tuple" | "set":
                return first
    kind = kind_of(iterable, names)
    if kind == "text":
        return "text"
    return "number" if kind in ("sequence", "vector", "array") else "other"


def bound(target: ast.expr, kind: Kind | tuple[Kind, ...]) -> dict[str, Kind]:
    """Returns the names that a target binds, with their kinds."""
    if isinstance(target, ast.Name):
        return {target.id: kind if isinstance(kind, str) else "items"}
    if isinstance(target, ast.Tuple | ast.List):
        unknown: tuple[Kind, ...] = tuple("other" for _ in target.elts)
        parts = kind if isinstance(kind, tuple) and len(kind) == len(target.elts) else unknown
        return {name: each for part, k in zip(target.elts, parts, strict=True) for name, each in bound(part, k).items()}
    return bound(target.value, "items") if isinstance(target, ast.Starred) else {}


def inside(generators: Sequence[ast.comprehension], names: Names) -> Names:
    """Returns the names that are known inside a comprehension."""
    for each in generators:
        names = {**names, **bound(each.target, item_kinds(each.iter, names))}
    return names


def join(kinds: Sequence[Kind]) -> Kind:
    """Returns the kind that covers all of these."""
    known = set(kinds)
    if len(known) == 1:
        return kinds[0]
    if known <= WHOLE:
        return "integer"
    if known <= SCALAR | {"bool"}:
        return "number"
    return "array" if known <= NUMERIC | _BY_ELEMENT | {"bool"} else "other"


def _constant(node: ast.Constant, names: Names, memo: Memo) -> Kind:
    kinds: Mapping[type, Kind] = {bool: "bool", int: "integer", float: "number", str: "text"}
    return kinds.get(type(node.value), "other")


def _name(node: ast.Name, names: Names, memo: Memo) -> Kind:
    return names.get(node.id, "other")


def _binary(node: ast.BinOp, names: Names, memo: Memo) -> Kind:
    left, right = kind_of(node.left, names, memo), kind_of(node.right, names, memo)
    if not isinstance(node.op, ARITHMETIC):
        return join((left, right))
    if left in NUMERIC and right in NUMERIC:
        whole = left in WHOLE and right in WHOLE and not isinstance(node.op, ast.Div | ast.Pow)
        return "integer" if whole else "array" if "array" in (left, right) else "number"
    if "text" in (left, right):
        return "text"
    if left in _BY_ELEMENT or right in _BY_ELEMENT:
        return "array"
    if "sequence" in (left, right):
        return "sequence"
    if "items" in (left, right):
        return "items"
    is_known = bool({left, right} & (SCALAR | {"bool"}))
    return "number" if is_known or not isinstance(node.op, _SAFE_ON_ANYTHING) else "other"


def _unary(node: ast.UnaryOp, names: Names, memo: Memo) -> Kind:
    kind = kind_of(node.operand, names, memo)
    if isinstance(node.op, ast.Not):
        return "bool"
    return "integer" if kind in ("bool", "index") else "array" if kind == "vector" else kind


def _comparison(node: ast.Compare, names: Names, memo: Memo) -> Kind:
    if isinstance(node.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot):
        return "bool"
    sides = [kind_of(each, names, memo) for each in (node.left, *node.comparators)]
    return "mask" if any(each in _BY_ELEMENT for each in sides) else "bool"


def _junction(node: ast.BoolOp, names: Names, memo: Memo) -> Kind:
    return join([kind_of(each, names, memo) for each in node.values])


def _choice(node: ast.IfExp, names: Names, memo: Memo) -> Kind:
    return join((kind_of(node.body, names, memo), kind_of(node.orelse, names, memo)))


def _call(node: ast.Call, names: Names, memo: Memo) -> Kind:
    if isinstance(node.func, ast.Name):
        return _builtin(node.func.id, node, names, memo)
    if isinstance(node.func, ast.Attribute):
        owner = kind_of(node.func.value, names, memo)
        if owner == "math":
            return "number"
        return _numpy(node.func.attr, node, names, memo) if owner == "numpy" else _method(node.func.attr, owner)
    return "other"


def _builtin(name: str, node: ast.Call, names: Names, memo: Memo) -> Kind:
    if name in RESULTS and name not in names:
        return RESULTS[name]
    kinds = [kind_of(each, names, memo) for each in node.args]
    match name:
        case "round":
            return "number" if len(kinds) > 1 else "integer"
        case "abs":
            return kinds[0] if kinds and kinds[0] in NUMERIC else "number"
        case "min" | "max" if kinds:
            return _extreme(node.args[0], kinds, names, memo)
        case "sorted" | "list" | "tuple" | "reversed":
            return "sequence" if kinds and kinds[0] in ("sequence", "array", "vector") else "items"
        case "set" | "zip" | "enumerate" | "map" | "filter" | "divmod":
            return "items"
    if names.get(name) == "function" and name in MATH:
        return "array" if kinds and kinds[0] in _BY_ELEMENT else "number"
    return "other"


def _extreme(first: ast.expr, kinds: Sequence[Kind], names: Names, memo: Memo) -> Kind:
    """Returns the kind of the smallest or largest of several, or of the items of one."""
    if isinstance(first, ast.GeneratorExp):
        return kind_of(first.elt, inside(first.generators, names), memo)
    if len(kinds) > 1:
        return join(kinds)
    return "number" if kinds[0] in ("sequence", "array", "vector") else "other"


def _numpy(name: str, node: ast.Call, names: Names, memo: Memo) -> Kind:
    if name in REDUCTIONS:
        return "array" if len(node.args) > 1 or node.keywords else "number"
    if name in ("argmax", "argmin", "count_nonzero"):
        return "integer"
    if name in MAKERS:
        return "array"
    kinds = [kind_of(each, names, memo) for each in node.args]
    return "number" if kinds and all(kind in SCALAR | {"bool"} for kind in kinds) else "array"


def _method(name: str, owner: Kind) -> Kind:
    if owner == "text":
        return TEXT_METHODS.get(name) or LIST_METHODS.get(name, "other")
    if owner in ("sequence", "items"):
        return LIST_METHODS.get(name, "other") if owner == "sequence" or name in ("count", "index") else "other"
    if owner in _BY_ELEMENT:
        return "number" if name in REDUCTIONS else "integer" if name in ("argmax", "argmin") else "array"
    return "other"


def _item(node: ast.Subscript, names: Names, memo: Memo) -> Kind:
    owner = kind_of(node.value, names, memo)
    if isinstance(node.slice, ast.Slice):
        return "array" if owner == "vector" else owner
    match owner:
        case "sequence" | "vector":
            return "number"
        case "array":
            return "array" if kind_of(node.slice, names, memo) not in SCALAR else "number"
        case "text":
            return "text"
    return "other"


def _attribute(node: ast.Attribute, names: Names, memo: Memo) -> Kind:
    owner = kind_of(node.value, names, memo)
    if owner in ("numpy", "math"):
        return "number" if node.attr in ("pi", "e", "inf", "tau") else "other"
    return "integer" if owner in _BY_ELEMENT and node.attr in ("size", "ndim") else "other"


def _display(node: ast.Tuple | ast.List, names: Names, memo: Memo) -> Kind:
    kinds = [kind_of(each, names, memo) for each in node.elts]
    return "sequence" if kinds and all(kind in SCALAR for kind in kinds) else "items"


def _comprehension(node: ast.ListComp, names: Names, memo: Memo) -> Kind:
    return "sequence" if kind_of(node.elt, inside(node.generators, names), memo) in SCALAR else "items"


def _formatted(node: ast.JoinedStr, names: Names, memo: Memo) -> Kind:
    return "text"


_READERS: Mapping[type[ast.expr], Callable[..., Kind]] = {
    ast.Constant: _constant, ast.Name: _name, ast.BinOp: _binary, ast.UnaryOp: _unary, ast.Compare: _comparison,
    ast.BoolOp: _junction, ast.IfExp: _choice, ast.Call: _call, ast.Subscript: _item, ast.Attribute: _attribute,
    ast.Tuple: _display, ast.List: _display, ast.ListComp: _comprehension, ast.JoinedStr: _formatted,
}  # fmt: skip

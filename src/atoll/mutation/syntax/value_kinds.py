"""Kinds of values: a light type inference that avoids, for example, adding a tuple to a number."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

# "index" is a loop counter, "vector" an array read by index such as `params[0]`, "mask" an array of booleans. A
# "sequence" holds numbers, "items" hold anything, and "power" is an exponent. "numpy", "math" and "function" are names
# to call, never values.
type Kind = Literal[
    "index", "integer", "number", "bool", "array", "mask", "vector", "sequence", "items", "text", "other", "power",
    "numpy", "math", "function",
]  # fmt: skip
type NameKinds = Mapping[str, Kind]

# Return kinds of built-in functions.
BUILTIN_RESULTS: Mapping[str, Kind] = {
    "len": "integer", "int": "integer", "ord": "integer", "hash": "integer", "sum": "number", "float": "number",
    "pow": "number", "range": "sequence", "str": "text", "chr": "text", "repr": "text",
    "bool": "bool", "isinstance": "bool", "any": "bool", "all": "bool",
}  # fmt: skip
MATH_FUNCTIONS = frozenset({
    "sqrt", "sin", "cos", "tan", "exp", "log", "log2", "log10", "tanh", "floor", "ceil", "fabs", "hypot", "atan",
    "atan2", "asin", "acos",
})  # fmt: skip
# From an array to a number, as functions and as methods.
REDUCTIONS = frozenset({"sum", "max", "min", "mean", "median", "std", "var", "prod", "dot", "amax", "amin", "ptp"})
ARRAY_MAKERS = frozenset({
    "array", "asarray", "zeros", "ones", "full", "arange", "linspace", "zeros_like", "ones_like", "argsort",
})  # fmt: skip
TEXT_METHODS: Mapping[str, Kind] = {
    "lower": "text", "upper": "text", "strip": "text", "lstrip": "text", "rstrip": "text", "replace": "text",
    "join": "text", "title": "text", "capitalize": "text", "zfill": "text", "format": "text", "find": "integer",
    "rfind": "integer", "rindex": "integer", "startswith": "bool", "endswith": "bool", "isdigit": "bool",
    "isalpha": "bool", "isupper": "bool", "islower": "bool", "isspace": "bool", "isalnum": "bool", "split": "items",
}  # fmt: skip
LIST_METHODS: Mapping[str, Kind] = {
    "count": "integer", "index": "integer", "pop": "number", "copy": "sequence", "append": "other", "extend": "other",
    "insert": "other", "sort": "other", "reverse": "other", "remove": "other",
}  # fmt: skip
ARRAY_ATTRIBUTES = frozenset({
    "sum", "mean", "max", "min", "std", "var", "prod", "argmax", "argmin", "shape", "size", "T", "clip", "astype",
})  # fmt: skip
# Built-in functions by their arguments.
SEQUENCE_FUNCTIONS = frozenset({"len", "sum", "sorted", "enumerate", "zip", "reversed", "list", "tuple", "any", "all"})
SCALAR_FUNCTIONS = frozenset({"float", "int", "round", "divmod"})
BUILTINS = frozenset({
    "abs", "all", "any", "bool", "divmod", "enumerate", "float", "int", "len", "list", "map", "max", "min", "pow",
    "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip",
})  # fmt: skip


type KindCache = dict[ast.expr, Kind] | None

INTEGER_KINDS: frozenset[Kind] = frozenset({"index", "integer"})
SCALAR_KINDS: frozenset[Kind] = INTEGER_KINDS | {"number"}
NUMERIC_KINDS: frozenset[Kind] = SCALAR_KINDS | {"array"}
_ACCEPTED_KINDS: Mapping[Kind, frozenset[Kind]] = {
    "integer": INTEGER_KINDS,
    "number": SCALAR_KINDS,
    "array": NUMERIC_KINDS,
}
_ELEMENTWISE_KINDS: frozenset[Kind] = frozenset({"array", "mask", "vector"})
_GENERIC_OPERATORS = (ast.Add, ast.Mult)  # also for strings and lists
ARITHMETIC_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow)


def fits(kind: Kind, required_kind: Kind) -> bool:
    """Returns whether a value of this kind is valid where `required_kind` is needed."""
    return kind == required_kind or kind in _ACCEPTED_KINDS.get(required_kind, ())


def infer_kind(node: ast.expr, names: NameKinds, cache: KindCache = None) -> Kind:
    """Infers the kind of an expression from the kinds of its names; `other` if unknown.

    The cache holds the kinds of its parts, for later calls in the same scope.
    """
    if cache is not None and (cached_kind := cache.get(node)) is not None:
        return cached_kind
    reader = _READERS.get(type(node))
    kind: Kind = reader(node, names, cache) if reader else "other"
    if cache is not None:
        cache[node] = kind
    return kind


def infer_item_kinds(iterable: ast.expr, names: NameKinds) -> Kind | tuple[Kind, ...]:
    """Infers the kind of the items of an iterable; a tuple of kinds for items that are unpacked."""
    if isinstance(iterable, ast.Call) and isinstance(iterable.func, ast.Name) and iterable.args:
        argument_kinds = [infer_item_kinds(arg, names) for arg in iterable.args]
        first = argument_kinds[0]
        flat_kinds: list[Kind] = [item_kind if isinstance(item_kind, str) else "other" for item_kind in argument_kinds]
        match iterable.func.id:
            case "range":
                return "index"
            case "enumerate":
                return ("index", flat_kinds[0])
            case "zip":
                return tuple(flat_kinds)
            case "sorted" | "reversed" | "list" | "tuple" | "set":
                return first
    kind = infer_kind(iterable, names)
    if kind == "text":
        return "text"
    return "number" if kind in ("sequence", "vector", "array") else "other"


def bind_target(target: ast.expr, kind: Kind | tuple[Kind, ...]) -> dict[str, Kind]:
    """Returns the names that a target binds, with their kinds."""
    if isinstance(target, ast.Name):
        return {target.id: kind if isinstance(kind, str) else "items"}
    if isinstance(target, ast.Tuple | ast.List):
        unknown_kinds: tuple[Kind, ...] = tuple("other" for _ in target.elts)
        part_kinds = kind if isinstance(kind, tuple) and len(kind) == len(target.elts) else unknown_kinds
        bound = [bind_target(part, part_kind) for part, part_kind in zip(target.elts, part_kinds, strict=True)]
        return {name: name_kind for names in bound for name, name_kind in names.items()}
    return bind_target(target.value, "items") if isinstance(target, ast.Starred) else {}


def bind_generators(generators: Sequence[ast.comprehension], names: NameKinds) -> NameKinds:
    """Returns the names in scope inside a comprehension."""
    for generator in generators:
        names = {**names, **bind_target(generator.target, infer_item_kinds(generator.iter, names))}
    return names


def join_kinds(kinds: Sequence[Kind]) -> Kind:
    """Returns the kind that covers all of these."""
    distinct_kinds = set(kinds)
    if len(distinct_kinds) == 1:
        return kinds[0]
    if distinct_kinds <= INTEGER_KINDS:
        return "integer"
    if distinct_kinds <= SCALAR_KINDS | {"bool"}:
        return "number"
    return "array" if distinct_kinds <= NUMERIC_KINDS | _ELEMENTWISE_KINDS | {"bool"} else "other"


def _infer_constant(node: ast.Constant, names: NameKinds, cache: KindCache) -> Kind:
    kinds: Mapping[type, Kind] = {bool: "bool", int: "integer", float: "number", str: "text"}
    return kinds.get(type(node.value), "other")


def _infer_name(node: ast.Name, names: NameKinds, cache: KindCache) -> Kind:
    return names.get(node.id, "other")


def _infer_binary(node: ast.BinOp, names: NameKinds, cache: KindCache) -> Kind:
    left, right = infer_kind(node.left, names, cache), infer_kind(node.right, names, cache)
    if not isinstance(node.op, ARITHMETIC_OPERATORS):
        return join_kinds((left, right))
    if left in NUMERIC_KINDS and right in NUMERIC_KINDS:
        is_integer = left in INTEGER_KINDS and right in INTEGER_KINDS and not isinstance(node.op, ast.Div | ast.Pow)
        return "integer" if is_integer else "array" if "array" in (left, right) else "number"
    if "text" in (left, right):
        return "text"
    if left in _ELEMENTWISE_KINDS or right in _ELEMENTWISE_KINDS:
        return "array"
    if "sequence" in (left, right):
        return "sequence"
    if "items" in (left, right):
        return "items"
    is_known = bool({left, right} & (SCALAR_KINDS | {"bool"}))
    return "number" if is_known or not isinstance(node.op, _GENERIC_OPERATORS) else "other"


def _infer_unary(node: ast.UnaryOp, names: NameKinds, cache: KindCache) -> Kind:
    kind = infer_kind(node.operand, names, cache)
    if isinstance(node.op, ast.Not):
        return "bool"
    return "integer" if kind in ("bool", "index") else "array" if kind == "vector" else kind


def _infer_comparison(node: ast.Compare, names: NameKinds, cache: KindCache) -> Kind:
    if isinstance(node.ops[0], ast.In | ast.NotIn | ast.Is | ast.IsNot):
        return "bool"
    side_kinds = [infer_kind(side, names, cache) for side in (node.left, *node.comparators)]
    return "mask" if any(side_kind in _ELEMENTWISE_KINDS for side_kind in side_kinds) else "bool"


def _infer_bool_op(node: ast.BoolOp, names: NameKinds, cache: KindCache) -> Kind:
    return join_kinds([infer_kind(value, names, cache) for value in node.values])


def _infer_conditional(node: ast.IfExp, names: NameKinds, cache: KindCache) -> Kind:
    return join_kinds((infer_kind(node.body, names, cache), infer_kind(node.orelse, names, cache)))


def _infer_call(node: ast.Call, names: NameKinds, cache: KindCache) -> Kind:
    if isinstance(node.func, ast.Name):
        return _infer_builtin(node.func.id, node, names, cache)
    if isinstance(node.func, ast.Attribute):
        owner = infer_kind(node.func.value, names, cache)
        if owner == "math":
            return "number"
        if owner == "numpy":
            return _infer_numpy(node.func.attr, node, names, cache)
        return _infer_method(node.func.attr, owner)
    return "other"


def _infer_builtin(name: str, node: ast.Call, names: NameKinds, cache: KindCache) -> Kind:
    if name in BUILTIN_RESULTS and name not in names:
        return BUILTIN_RESULTS[name]
    kinds = [infer_kind(argument, names, cache) for argument in node.args]
    match name:
        case "round":
            return "number" if len(kinds) > 1 else "integer"
        case "abs":
            return kinds[0] if kinds and kinds[0] in NUMERIC_KINDS else "number"
        case "min" | "max" if kinds:
            return _infer_extreme(node.args[0], kinds, names, cache)
        case "sorted" | "list" | "tuple" | "reversed":
            return "sequence" if kinds and kinds[0] in ("sequence", "array", "vector") else "items"
        case "set" | "zip" | "enumerate" | "map" | "filter" | "divmod":
            return "items"
    if names.get(name) == "function" and name in MATH_FUNCTIONS:
        return "array" if kinds and kinds[0] in _ELEMENTWISE_KINDS else "number"
    return "other"


def _infer_extreme(first: ast.expr, kinds: Sequence[Kind], names: NameKinds, cache: KindCache) -> Kind:
    """Returns the kind of `min` or `max` of several arguments, or of the items of one."""
    if isinstance(first, ast.GeneratorExp):
        return infer_kind(first.elt, bind_generators(first.generators, names), cache)
    if len(kinds) > 1:
        return join_kinds(kinds)
    return "number" if kinds[0] in ("sequence", "array", "vector") else "other"


def _infer_numpy(name: str, node: ast.Call, names: NameKinds, cache: KindCache) -> Kind:
    if name in REDUCTIONS:
        return "array" if len(node.args) > 1 or node.keywords else "number"
    if name in ("argmax", "argmin", "count_nonzero"):
        return "integer"
    if name in ARRAY_MAKERS:
        return "array"
    kinds = [infer_kind(argument, names, cache) for argument in node.args]
    return "number" if kinds and all(kind in SCALAR_KINDS | {"bool"} for kind in kinds) else "array"


def _infer_method(name: str, owner: Kind) -> Kind:
    if owner == "text":
        return TEXT_METHODS.get(name) or LIST_METHODS.get(name, "other")
    if owner in ("sequence", "items"):
        return LIST_METHODS.get(name, "other") if owner == "sequence" or name in ("count", "index") else "other"
    if owner in _ELEMENTWISE_KINDS:
        return "number" if name in REDUCTIONS else "integer" if name in ("argmax", "argmin") else "array"
    return "other"


def _infer_subscript(node: ast.Subscript, names: NameKinds, cache: KindCache) -> Kind:
    owner = infer_kind(node.value, names, cache)
    if isinstance(node.slice, ast.Slice):
        return "array" if owner == "vector" else owner
    match owner:
        case "sequence" | "vector":
            return "number"
        case "array":
            return "array" if infer_kind(node.slice, names, cache) not in SCALAR_KINDS else "number"
        case "text":
            return "text"
    return "other"


def _infer_attribute(node: ast.Attribute, names: NameKinds, cache: KindCache) -> Kind:
    owner = infer_kind(node.value, names, cache)
    if owner in ("numpy", "math"):
        return "number" if node.attr in ("pi", "e", "inf", "tau") else "other"
    return "integer" if owner in _ELEMENTWISE_KINDS and node.attr in ("size", "ndim") else "other"


def _infer_sequence(node: ast.Tuple | ast.List, names: NameKinds, cache: KindCache) -> Kind:
    kinds = [infer_kind(element, names, cache) for element in node.elts]
    return "sequence" if kinds and all(kind in SCALAR_KINDS for kind in kinds) else "items"


def _infer_comprehension(node: ast.ListComp, names: NameKinds, cache: KindCache) -> Kind:
    item_kind = infer_kind(node.elt, bind_generators(node.generators, names), cache)
    return "sequence" if item_kind in SCALAR_KINDS else "items"


def _infer_f_string(node: ast.JoinedStr, names: NameKinds, cache: KindCache) -> Kind:
    return "text"


_READERS: Mapping[type[ast.expr], Callable[..., Kind]] = {
    ast.Constant: _infer_constant, ast.Name: _infer_name, ast.BinOp: _infer_binary, ast.UnaryOp: _infer_unary,
    ast.Compare: _infer_comparison, ast.BoolOp: _infer_bool_op, ast.IfExp: _infer_conditional, ast.Call: _infer_call,
    ast.Subscript: _infer_subscript, ast.Attribute: _infer_attribute, ast.Tuple: _infer_sequence,
    ast.List: _infer_sequence, ast.ListComp: _infer_comprehension, ast.JoinedStr: _infer_f_string,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """Names and constants for new code. Functions of numpy and math need a source that imports or mentions the module.

    Attributes:
        constants: Frequent numbers.
        operators: Arithmetic operators; a repeated one is drawn more often.
        numpy: Elementwise functions of one argument.
        math: Functions of one number.
        builtins: Built-in functions of Python.
        predefined_names: Names that exist without an import, such as ("np", "numpy").
        parameters: Names of arguments that hold numbers fitted by the evaluator. They are always subscripted.
        num_parameters: Count of numbers in such an argument.
    """

    constants: tuple[float, ...] = (0, 1, 1, 2, 2, 3, 0.5, 0.5, 0.1, 10)
    operators: tuple[str, ...] = (*"++++----*****///%", "**", "//")
    numpy: tuple[str, ...] = ("sin", "cos", "exp", "log", "sqrt", "abs", "tanh", "square", "sign")
    math: tuple[str, ...] = ("sin", "cos", "exp", "log", "sqrt", "tanh", "floor")
    builtins: tuple[str, ...] = ("abs", "min", "max", "sum", "len", "round")
    predefined_names: tuple[tuple[str, Kind], ...] = ()
    parameters: tuple[str, ...] = ("params", "parameters", "theta", "coefficients", "coeffs")
    num_parameters: int = 10

    def list_functions(self, names: NameKinds) -> "AvailableFunctions":
        """Returns the functions that can be called with these names in scope."""
        numpy = [name for name, kind in names.items() if kind == "numpy"][:1]
        math = [name for name, kind in names.items() if kind == "math"][:1]
        elementwise = [f"{alias}.{name}" for alias in numpy for name in self.numpy]
        scalar = [f"{alias}.{name}" for alias in math for name in self.math]
        scalar += [name for name, kind in names.items() if kind == "function" and name in self.math]
        builtin = [name for name in ("abs",) if name in self.builtins]
        return AvailableFunctions(
            scalar=(*elementwise, *scalar, *builtin, *(name for name in ("round",) if name in self.builtins)),
            elementwise=(*elementwise, *builtin),
            reductions=tuple(f"{alias}.{name}" for alias in numpy for name in ("sum", "max", "min", "mean")),
            pairwise=tuple(name for name in ("min", "max") if name in self.builtins),
            elementwise_pairwise=tuple(f"{alias}.{name}" for alias in numpy for name in ("minimum", "maximum")),
            where=f"{numpy[0]}.where" if numpy else None,
            sequence_functions=tuple(name for name in ("len", "sum", "min", "max") if name in self.builtins),
        )


class AvailableFunctions(NamedTuple):
    """Functions that one source can call, as dotted names.

    Attributes:
        scalar: Functions of one number.
        elementwise: Functions of one number or array.
        reductions: Functions from an array to a number.
        pairwise: Functions of two numbers.
        elementwise_pairwise: Functions of two numbers or arrays.
        where: `numpy.where`, if numpy is available.
        sequence_functions: Functions from a sequence of numbers to a number.
    """

    scalar: tuple[str, ...]
    elementwise: tuple[str, ...]
    reductions: tuple[str, ...]
    pairwise: tuple[str, ...]
    elementwise_pairwise: tuple[str, ...]
    where: str | None
    sequence_functions: tuple[str, ...]


def filter_unshadowed(functions: tuple[str, ...], names: NameKinds) -> list[str]:
    """Returns the functions that no variable shadows: `max` may be the name of an argument."""
    return [name for name in functions if "." in name or names.get(name, "function") == "function"]

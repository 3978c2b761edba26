"""Kinds of names, inferred from annotations and from their use in a function."""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from atoll.mutation.syntax.source_text import list_nodes
from atoll.mutation.syntax.value_kinds import (
    ARRAY_ATTRIBUTES,
    LIST_METHODS,
    SCALAR_FUNCTIONS,
    SCALAR_KINDS,
    SEQUENCE_FUNCTIONS,
    TEXT_METHODS,
    Kind,
    Vocabulary,
)


@dataclass(slots=True)
class NameUsage:
    """Usage of names in the body of a function.

    Attributes:
        kinds: Kind of each name, from the first use that determines it.
        indices: Constant indices of each subscripted name.
        loads: Names that are read.
        stores: Names that are written.
        integer_names: Names used as counts or indices.
        scalar_names: Names compared in a test, so they are not arrays.
        numeric_names: Names in arithmetic.
        optional_names: Names that may be None.
        size: Number of nodes.
    """

    kinds: dict[str, Kind] = field(default_factory=dict)
    indices: dict[str, set[int]] = field(default_factory=dict)
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    integer_names: set[str] = field(default_factory=set)
    scalar_names: set[str] = field(default_factory=set)
    numeric_names: set[str] = field(default_factory=set)
    optional_names: set[str] = field(default_factory=set)
    size: int = 0

    def guess(self, name: str, number_kind: Kind) -> Kind | None:
        """Returns the kind of a name, or None. `number_kind` is the kind if only arithmetic is known."""
        if name in self.optional_names:
            return "other"
        if name in self.kinds:
            return self.kinds[name]
        if name in self.integer_names:
            return "integer"
        return "number" if name in self.scalar_names else number_kind if name in self.numeric_names else None


def collect_usage(body: Iterable[ast.stmt]) -> NameUsage:
    """Collects the name usage of statements, without annotations and decorators."""
    usage, all_nodes = NameUsage(), list_nodes(*body)
    usage.size = len(all_nodes)
    for node in all_nodes:
        recorder = _RECORDERS.get(type(node))
        if recorder is not None:
            recorder(usage, node)
    return usage


def _record_name(usage: NameUsage, node: ast.Name) -> None:
    (usage.loads if isinstance(node.ctx, ast.Load) else usage.stores).add(node.id)


def _record_argument(usage: NameUsage, node: ast.arg) -> None:
    usage.stores.add(node.arg)


def _record_subscript(usage: NameUsage, node: ast.Subscript) -> None:
    usage.integer_names.update(child.id for child in list_nodes(node.slice) if isinstance(child, ast.Name))
    match node.value, node.slice:
        case ast.Name(name), ast.Constant(int() as index) | ast.UnaryOp(ast.USub(), ast.Constant(int() as index)):
            usage.indices.setdefault(name, set()).add(index)
            usage.kinds.setdefault(name, "sequence")
        case ast.Name(name), ast.Constant(str()):
            usage.kinds[name] = "other"
        case ast.Name(name), ast.Compare() | ast.Tuple():
            usage.kinds.setdefault(name, "array")
        case ast.Name(name), _:
            usage.kinds.setdefault(name, "sequence")
        case ast.Subscript(ast.Name(name)), _:
            usage.kinds[name] = "items"


def _record_call(usage: NameUsage, node: ast.Call) -> None:
    names = [arg.id for arg in node.args if isinstance(arg, ast.Name)]
    match node.func:
        case ast.Name(function_name):
            usage.kinds.setdefault(function_name, "other")
            if function_name in SEQUENCE_FUNCTIONS or (function_name in ("min", "max") and len(node.args) == 1):
                for name in names:
                    usage.kinds.setdefault(name, "sequence")
            elif function_name == "range":
                nodes = list_nodes(*node.args)
                usage.integer_names.update(child.id for child in nodes if isinstance(child, ast.Name))
            elif function_name in SCALAR_FUNCTIONS or function_name in ("min", "max"):
                usage.scalar_names.update(names)
        case ast.Attribute(ast.Name(owner), method):
            if owner in ("np", "numpy", "math"):
                (usage.numeric_names if owner != "math" else usage.scalar_names).update(names)
            elif method in TEXT_METHODS:
                usage.kinds[owner] = "text"
            elif method in LIST_METHODS:
                usage.kinds.setdefault(owner, "sequence")


def _record_attribute(usage: NameUsage, node: ast.Attribute) -> None:
    if isinstance(node.value, ast.Name) and node.attr not in TEXT_METHODS and node.attr not in LIST_METHODS:
        usage.kinds.setdefault(node.value.id, "array" if node.attr in ARRAY_ATTRIBUTES else "other")


def _record_arithmetic(usage: NameUsage, node: ast.BinOp) -> None:
    for operand, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(operand, ast.Name):
            match other:
                case ast.Constant(str()) | ast.JoinedStr():
                    usage.kinds.setdefault(operand.id, "text")
                case ast.List() | ast.Tuple() | ast.ListComp():
                    usage.kinds.setdefault(operand.id, "sequence")
                case _:
                    usage.numeric_names.add(operand.id)


def _record_iteration(usage: NameUsage, node: ast.For | ast.comprehension) -> None:
    if isinstance(node.iter, ast.Name):
        usage.kinds.setdefault(node.iter.id, "sequence")


def _record_test(usage: NameUsage, node: ast.If | ast.While | ast.IfExp) -> None:
    for child in list_nodes(node.test):
        if isinstance(child, ast.Compare):
            for side in (child.left, *child.comparators):
                if isinstance(side, ast.Name) and isinstance(child.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                    usage.scalar_names.add(side.id)


def _record_assignment(usage: NameUsage, node: ast.Assign) -> None:
    if isinstance(node.value, ast.Constant) and node.value.value is None:
        usage.optional_names.update(target.id for target in node.targets if isinstance(target, ast.Name))


def _record_augmented(usage: NameUsage, node: ast.AugAssign) -> None:
    if isinstance(node.target, ast.Name):
        usage.loads.add(node.target.id)
        usage.numeric_names.add(node.target.id)


_RECORDERS: Mapping[type[ast.AST], Callable[..., None]] = {
    ast.Name: _record_name, ast.arg: _record_argument, ast.Subscript: _record_subscript, ast.Call: _record_call,
    ast.Attribute: _record_attribute, ast.BinOp: _record_arithmetic, ast.For: _record_iteration,
    ast.comprehension: _record_iteration, ast.If: _record_test, ast.While: _record_test, ast.IfExp: _record_test,
    ast.Assign: _record_assignment, ast.AugAssign: _record_augmented,
}  # fmt: skip


_ANNOTATION_KINDS: Mapping[str, Kind] = {
    "int": "integer", "float": "number", "complex": "number", "float64": "number", "Number": "number", "bool": "bool",
    "str": "text", "ndarray": "array", "NDArray": "array", "ArrayLike": "array", "range": "sequence",
}  # fmt: skip
_SEQUENCES = frozenset({"tuple", "list", "Tuple", "List", "Sequence", "Iterable", "Collection"})


def parse_annotation(node: ast.expr | None) -> Kind | None:
    """Returns the kind of an annotation; None without one."""
    match node:
        case None:
            return None
        case ast.Name(name) | ast.Attribute(attr=name):
            return "sequence" if name in _SEQUENCES else _ANNOTATION_KINDS.get(name, "other")
        case ast.Constant(str() as text):
            return parse_annotation(_parse_expression(text))
        case ast.Subscript(ast.Name(name) | ast.Attribute(attr=name), inner):
            parts = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            if name not in _SEQUENCES:
                return _ANNOTATION_KINDS.get(name, "other")
            kinds = [parse_annotation(part) for part in parts if not isinstance(part, ast.Constant)]
            return "sequence" if all(kind in SCALAR_KINDS for kind in kinds) else "items"
        case ast.BinOp(left, ast.BitOr(), ast.Constant(None)):
            return "other" if parse_annotation(left) else None  # it may be None: arithmetic would fail
    return "other"


def infer_argument_kind(
    name: str, annotation: ast.expr | None, usage: NameUsage, vocabulary: Vocabulary, number_kind: Kind
) -> Kind:
    """Returns the kind of an argument by its annotation, else by its usage, else a number."""
    if name in vocabulary.parameters:
        return "vector"
    if name in ("self", "cls"):
        return "other"
    kind = parse_annotation(annotation)
    if kind is None:
        return usage.guess(name, number_kind) or number_kind
    # An array that is read by index is not an operand: `params[0] * x` has two sorts of arrays.
    return "vector" if kind == "array" and usage.kinds.get(name) == "sequence" else kind


def _parse_expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None

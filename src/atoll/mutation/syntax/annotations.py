"""What the annotation of an argument says about its kind."""

import ast
from collections.abc import Mapping

from atoll.mutation.syntax.kinds import SCALAR_KINDS
from atoll.mutation.syntax.uses import NameUsage
from atoll.mutation.syntax.vocabulary import Vocabulary
from atoll.mutation.syntax.words import Kind

_ANNOTATION_KINDS: Mapping[str, Kind] = {
    "int": "integer", "float": "number", "complex": "number", "float64": "number", "Number": "number", "bool": "bool",
    "str": "text", "ndarray": "array", "NDArray": "array", "ArrayLike": "array", "range": "sequence",
}  # fmt: skip
_SEQUENCES = frozenset({"tuple", "list", "Tuple", "List", "Sequence", "Iterable", "Collection"})


def parse_annotation(node: ast.expr | None) -> Kind | None:
    """Returns the kind that an annotation means; None where there is none."""
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


def infer_argument_kind(name: str, annotation: ast.expr | None, usage: NameUsage, vocabulary: Vocabulary, number_kind: Kind) -> Kind:
    """Returns the kind of an argument by its annotation, else by its uses, else as a number."""
    if name in vocabulary.parameters:
        return "vector"
    if name in ("self", "cls"):
        return "other"
    kind = parse_annotation(annotation)
    if kind is None:
        return usage.guess(name, number_kind) or number_kind
    # An array that is read by position is no operand: `params[0] * x` has two sorts of arrays in it.
    return "vector" if kind == "array" and usage.kinds.get(name) == "sequence" else kind


def _parse_expression(text: str) -> ast.expr | None:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError:
        return None

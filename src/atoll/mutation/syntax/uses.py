"""How a function uses its names: what that says about them where no annotation does."""

import ast
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from atoll.mutation.syntax.trees import nodes
from atoll.mutation.syntax.words import ARRAY_PARTS, LIST_METHODS, OF_SCALAR, OF_SEQUENCE, TEXT_METHODS, Kind


@dataclass(slots=True)
class Uses:
    """What the body of a function does with its names.

    Attributes:
        kinds: What a name must be: the first thing that its use tells for sure.
        indices: By which constant numbers a name is subscripted.
        loads: Names that are read.
        stores: Names that are written.
        whole: Names that count or index.
        scalar: Names that are compared in a test, so they are no arrays.
        numeric: Names in arithmetic.
        none: Names that may be None.
        size: Number of nodes.
    """

    kinds: dict[str, Kind] = field(default_factory=dict)
    indices: dict[str, set[int]] = field(default_factory=dict)
    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)
    scalar: set[str] = field(default_factory=set)
    numeric: set[str] = field(default_factory=set)
    none: set[str] = field(default_factory=set)
    size: int = 0

    def guess(self, name: str, number: Kind) -> Kind | None:
        """Returns the kind that the uses tell; `number` is what arithmetic alone means."""
        if name in self.none:
            return "other"
        if name in self.kinds:
            return self.kinds[name]
        if name in self.whole:
            return "integer"
        return "number" if name in self.scalar else number if name in self.numeric else None


def uses_of(body: Iterable[ast.stmt]) -> Uses:
    """Reads statements and all that is in them, but for annotations and decorators."""
    uses, found = Uses(), nodes(*body)
    uses.size = len(found)
    for node in found:
        note = _NOTES.get(type(node))
        if note is not None:
            note(uses, node)
    return uses


def _note_name(uses: Uses, node: ast.Name) -> None:
    (uses.loads if isinstance(node.ctx, ast.Load) else uses.stores).add(node.id)


def _note_argument(uses: Uses, node: ast.arg) -> None:
    uses.stores.add(node.arg)


def _note_subscript(uses: Uses, node: ast.Subscript) -> None:
    uses.whole.update(each.id for each in nodes(node.slice) if isinstance(each, ast.Name))
    match node.value, node.slice:
        case ast.Name(name), ast.Constant(int() as place) | ast.UnaryOp(ast.USub(), ast.Constant(int() as place)):
            uses.indices.setdefault(name, set()).add(place)
            uses.kinds.setdefault(name, "sequence")
        case ast.Name(name), ast.Constant(str()):
            uses.kinds[name] = "other"
        case ast.Name(name), ast.Compare() | ast.Tuple():
            uses.kinds.setdefault(name, "array")
        case ast.Name(name), _:
            uses.kinds.setdefault(name, "sequence")
        case ast.Subscript(ast.Name(name)), _:
            uses.kinds[name] = "items"


def _note_call(uses: Uses, node: ast.Call) -> None:
    names = [arg.id for arg in node.args if isinstance(arg, ast.Name)]
    match node.func:
        case ast.Name(called):
            uses.kinds.setdefault(called, "other")
            if called in OF_SEQUENCE or (called in ("min", "max") and len(node.args) == 1):
                for name in names:
                    uses.kinds.setdefault(name, "sequence")
            elif called == "range":
                uses.whole.update(each.id for arg in node.args for each in nodes(arg) if isinstance(each, ast.Name))
            elif called in OF_SCALAR or called in ("min", "max"):
                uses.scalar.update(names)
        case ast.Attribute(ast.Name(owner), method):
            if owner in ("np", "numpy", "math"):
                (uses.numeric if owner != "math" else uses.scalar).update(names)
            elif method in TEXT_METHODS:
                uses.kinds[owner] = "text"
            elif method in LIST_METHODS:
                uses.kinds.setdefault(owner, "sequence")


def _note_attribute(uses: Uses, node: ast.Attribute) -> None:
    if isinstance(node.value, ast.Name) and node.attr not in TEXT_METHODS and node.attr not in LIST_METHODS:
        uses.kinds.setdefault(node.value.id, "array" if node.attr in ARRAY_PARTS else "other")


def _note_arithmetic(uses: Uses, node: ast.BinOp) -> None:
    for one, other in ((node.left, node.right), (node.right, node.left)):
        if isinstance(one, ast.Name):
            match other:
                case ast.Constant(str()) | ast.JoinedStr():
                    uses.kinds.setdefault(one.id, "text")
                case ast.List() | ast.Tuple() | ast.ListComp():
                    uses.kinds.setdefault(one.id, "sequence")
                case _:
                    uses.numeric.add(one.id)


def _note_iterated(uses: Uses, node: ast.For | ast.comprehension) -> None:
    if isinstance(node.iter, ast.Name):
        uses.kinds.setdefault(node.iter.id, "sequence")


def _note_test(uses: Uses, node: ast.If | ast.While | ast.IfExp) -> None:
    for each in nodes(node.test):
        if isinstance(each, ast.Compare):
            for side in (each.left, *each.comparators):
                if isinstance(side, ast.Name) and isinstance(each.ops[0], ast.Lt | ast.LtE | ast.Gt | ast.GtE):
                    uses.scalar.add(side.id)


def _note_assigned(uses: Uses, node: ast.Assign) -> None:
    if isinstance(node.value, ast.Constant) and node.value.value is None:
        uses.none.update(target.id for target in node.targets if isinstance(target, ast.Name))


def _note_augmented(uses: Uses, node: ast.AugAssign) -> None:
    if isinstance(node.target, ast.Name):
        uses.loads.add(node.target.id)
        uses.numeric.add(node.target.id)


_NOTES: Mapping[type[ast.AST], Callable[..., None]] = {
    ast.Name: _note_name, ast.arg: _note_argument, ast.Subscript: _note_subscript, ast.Call: _note_call,
    ast.Attribute: _note_attribute, ast.BinOp: _note_arithmetic, ast.For: _note_iterated,
    ast.comprehension: _note_iterated, ast.If: _note_test, ast.While: _note_test, ast.IfExp: _note_test,
    ast.Assign: _note_assigned, ast.AugAssign: _note_augmented,
}  # fmt: skip

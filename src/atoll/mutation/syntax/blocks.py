"""Statements in their order: which names are in scope where, and what may change."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from atoll.mutation.syntax import annotations, kinds
from atoll.mutation.syntax.kinds import WHOLE
from atoll.mutation.syntax.places import Ground, Place, Spot, is_read
from atoll.mutation.syntax.trees import nodes
from atoll.mutation.syntax.uses import Uses, uses_of
from atoll.mutation.syntax.words import Kind, Names

_SPOTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.If, ast.For)
_MODULES: Mapping[str, Kind] = {"numpy": "numpy", "math": "math"}

type Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class Block:
    """Reads statements of one function, class or module. Names are never changed: a binding makes new ones.

    Attributes:
        is_local: Whether it is in a function: then nobody else sees its names.
        returns: The kind that the function is annotated to return.
        guarded: Names that end the `while` around it: what moves them stays, or it might never end.
        is_class: Whether it is the body of a class: a new name there would be a field or a member.
    """

    ground: Ground
    uses: Uses
    is_local: bool = False
    returns: Kind | None = None
    guarded: frozenset[str] | None = None
    is_class: bool = False

    def read(self, body: Sequence[ast.stmt], names: Names) -> Names | None:
        """Adds the places and spots of a body; returns the names known after it, None if it never gets there."""
        places, is_open = self.ground.places, self.ground.listing.is_open
        for statement in body:
            reader, num_places = _READERS.get(type(statement)), len(places)
            after = reader(self, statement, names) if reader else names
            has_spot = isinstance(statement, _SPOTS) and not self.is_class
            if has_spot and is_open(statement) and not self.is_guarded(statement):
                place = places[num_places] if len(places) > num_places else None
                movable = after is not None and len(body) > 1 and self.is_local and self.guarded is None
                self.ground.spots.append(Spot(statement, names, self.uses, place, movable))
            if after is None:
                return None
            names = after
        return names

    def define(self, node: Definition, names: Names, uses: Uses) -> None:
        """Reads the body of a function or class; its signature and decorators stay as they are."""
        body = without_docstring(node.body)
        if isinstance(node, ast.ClassDef):
            Block(self.ground, uses, is_class=True).read(body, names)
            return
        own = uses_of(node.body).stores if self.is_local else uses.stores
        seen = {name: kind for name, kind in names.items() if name not in own}  # a local name hides it, even early
        inner = {**seen, **self._arguments(node.args, uses)}
        Block(self.ground, uses, True, annotations.annotated(node.returns)).read(body, inner)

    def place(self, root: ast.expr, demand: Kind, names: Names) -> None:
        if self.ground.listing.is_open(root):
            self.ground.places.append(Place(root, demand, names, self.uses))

    def place_value(self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, target: ast.expr, names: Names) -> Kind:
        """Adds the value of an assignment, unless it ends a loop; returns its kind."""
        assert node.value is not None
        kind = kinds.kind_of(node.value, names)
        if not self.is_guarded(node):
            self.place(node.value, self.wanted(kind, target), names)
        return kind

    def wanted(self, kind: Kind, target: ast.expr | None = None) -> Kind:
        """Returns what may stand where a value of this kind is assigned or returned."""
        if isinstance(target, ast.Name) and target.id in self.uses.whole and kind in kinds.SCALAR:
            return "integer"
        return "number" if kind in WHOLE else kind

    def binding(self, names: Names, target: ast.expr, kind: Kind | tuple[Kind, ...]) -> Names:
        """Returns the names with those that a target binds."""
        return {**names, **{name: self._settled(name, each) for name, each in kinds.bound(target, kind).items()}}

    def is_guarded(self, statement: ast.stmt) -> bool:
        """Says whether a statement moves what ends the loop around it: assigns to it or calls a method of it."""
        if not self.guarded:
            return False
        for node in nodes(statement):
            match node:
                case ast.Name(name) if name in self.guarded and not is_read(node):
                    return True
                case ast.Attribute(ast.Name(name)) if name in self.guarded:
                    return True
        return False

    def _settled(self, name: str, kind: Kind) -> Kind:
        if name in self.uses.none:
            return "other"
        if kind == "other":
            return self.uses.guess(name, self.ground.number) or "other"
        if name in self.uses.whole:
            return "integer" if kind == "number" else kind
        return "number" if kind == "integer" else kind  # it may become a fraction later on

    def _arguments(self, args: ast.arguments, uses: Uses) -> dict[str, Kind]:
        ground, plain = self.ground, [*args.posonlyargs, *args.args]
        found: dict[str, Kind] = {
            each.arg: annotations.argument_kind(each.arg, each.annotation, uses, ground.vocabulary, ground.number)
            for each in (*plain, *args.kwonlyargs)
        }
        defaults = [*zip(reversed(plain), reversed(args.defaults), strict=False)]
        for each, default in (*defaults, *zip(args.kwonlyargs, args.kw_defaults, strict=True)):
            if isinstance(default, ast.Constant) and default.value is None:
                found[each.arg] = "other"
        found |= {each.arg: "items" for each in (args.vararg,) if each}
        return found | {each.arg: "other" for each in (args.kwarg,) if each}


def without_docstring(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    match body:
        case [ast.Expr(ast.Constant(str())), *rest]:
            return rest
    return body


def imported(statement: ast.stmt) -> dict[str, Kind]:
    """Returns the names that an import binds."""
    match statement:
        case ast.Import(found):
            return {each.asname or each.name.partition(".")[0]: _MODULES.get(each.name, "other") for each in found}
        case ast.ImportFrom(module=module, names=found):
            kind: Kind = "function" if module in _MODULES else "other"
            return {each.asname or each.name: kind for each in found}
    return {}


def _assignment(block: Block, node: ast.Assign, names: Names) -> Names:
    kind: Kind | tuple[Kind, ...] = block.place_value(node, node.targets[0], names)
    if isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple):
        kind = tuple(kinds.kind_of(each, names) for each in node.value.elts)
    for target in node.targets:
        names = block.binding(names, target, kind)
    return names


def _annotated(block: Block, node: ast.AnnAssign, names: Names) -> Names:
    if node.value is None:
        return names
    kind = block.place_value(node, node.target, names)
    return block.binding(names, node.target, annotations.annotated(node.annotation) or kind)


def _augmented(block: Block, node: ast.AugAssign, names: Names) -> Names:
    block.place_value(node, node.target, names)
    if not isinstance(node.target, ast.Name):
        return names
    whole = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
    return block.binding(names, node.target, kinds.kind_of(whole, names))


def _return(block: Block, node: ast.Return, names: Names) -> None:
    if node.value is not None:
        kind = kinds.kind_of(node.value, names)
        is_told = block.returns in ("integer", "number", "array") and kind in kinds.SCALAR | {"other"}
        block.place(node.value, (is_told and block.returns) or block.wanted(kind), names)


def _expression(block: Block, node: ast.Expr, names: Names) -> Names:
    if not isinstance(node.value, ast.Constant) and not block.is_guarded(node):
        block.place(node.value, "other", names)
    return names


def _jump(block: Block, node: ast.stmt, names: Names) -> None:
    return None


def _if(block: Block, node: ast.If, names: Names) -> Names | None:
    if block.guarded is None or not _jumps(node):
        block.place(node.test, block.wanted(kinds.kind_of(node.test, names)), names)
    ends = [block.read(node.body, names), block.read(node.orelse, names)]
    match [end for end in ends if end is not None]:
        case []:
            return None
        case [one]:
            return one
        case [one, other]:
            return {name: kinds.join((kind, other[name])) for name, kind in one.items() if name in other}
    return names


def _for(block: Block, node: ast.For, names: Names) -> Names:
    """Reads a loop: it lives on the kind of its items, so its iterable stays and only what is in it may change."""
    block.place(node.iter, "other", names)
    block.read(node.body, block.binding(names, node.target, kinds.item_kinds(node.iter, names)))
    block.read(node.orelse, names)
    return names


def _while(block: Block, node: ast.While, names: Names) -> Names:
    """Reads the body alone: the test stays, and so does what moves the names in it."""
    tests = [node.test, *(each.test for each in nodes(node) if isinstance(each, ast.If) and _jumps(each))]
    guarded = frozenset(each.id for each in nodes(*tests) if isinstance(each, ast.Name))
    replace(block, guarded=guarded | (block.guarded or frozenset())).read(node.body, names)
    block.read(node.orelse, names)
    return names


def _with(block: Block, node: ast.With, names: Names) -> Names | None:
    for item in node.items:
        if item.optional_vars is not None:
            names = block.binding(names, item.optional_vars, "other")
    return block.read(node.body, names)


def _try(block: Block, node: ast.Try, names: Names) -> Names:
    for body in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
        block.read(body, names)
    return names


def _match(block: Block, node: ast.Match, names: Names) -> Names:
    for case in node.cases:
        block.read(case.body, names)
    return names


def _definition(block: Block, node: Definition, names: Names) -> Names:
    known: Names = {**names, node.name: "other"}
    if block.is_local:
        block.define(node, known, block.uses)
    return known


def _deletion(block: Block, node: ast.Delete, names: Names) -> Names:
    gone = {each.id for each in node.targets if isinstance(each, ast.Name)}
    return {name: kind for name, kind in names.items() if name not in gone}


def _import(block: Block, node: ast.stmt, names: Names) -> Names:
    return {**names, **imported(node)}


def _jumps(node: ast.If) -> bool:
    return any(isinstance(each, ast.Break | ast.Return) for each in nodes(node))


_READERS: Mapping[type[ast.stmt], Callable[..., Names | None]] = {
    ast.Assign: _assignment, ast.AnnAssign: _annotated, ast.AugAssign: _augmented, ast.Expr: _expression,
    ast.Return: _return, ast.If: _if, ast.For: _for, ast.While: _while, ast.With: _with, ast.Try: _try,
    ast.Match: _match, ast.FunctionDef: _definition, ast.ClassDef: _definition, ast.AsyncFunctionDef: _definition,
    ast.Import: _import, ast.ImportFrom: _import, ast.Delete: _deletion,
    ast.Raise: _jump, ast.Break: _jump, ast.Continue: _jump,
}  # fmt: skip

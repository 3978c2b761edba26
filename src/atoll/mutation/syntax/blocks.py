"""Reads statements in order and records the names in scope and the edit sites."""

import ast
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from atoll.mutation.syntax import name_usage, value_kinds
from atoll.mutation.syntax.name_usage import NameUsage, collect_usage
from atoll.mutation.syntax.sites import ExpressionSite, SiteIndex, StatementSite, is_read
from atoll.mutation.syntax.source_text import list_nodes
from atoll.mutation.syntax.value_kinds import INTEGER_KINDS, Kind, NameKinds

_SITE_STATEMENTS = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return, ast.If, ast.For)
_MODULES: Mapping[str, Kind] = {"numpy": "numpy", "math": "math"}

type Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(frozen=True, slots=True)
class BlockReader:
    """Reads statements of one function, class or module. A binding makes a new mapping of names.

    Attributes:
        is_local: Whether the block is in a function, so that other code does not see its names.
        return_kind: Annotated return kind of the function.
        guarded_names: Names that end the `while` around the block. Code that changes them stays, or it might never end.
        is_class: Whether the block is the body of a class, where a new name would be a member.
    """

    site_index: SiteIndex
    usage: NameUsage
    is_local: bool = False
    return_kind: Kind | None = None
    guarded_names: frozenset[str] | None = None
    is_class: bool = False

    def read(self, body: Sequence[ast.stmt], names: NameKinds) -> NameKinds | None:
        """Adds the sites of a body. Returns the names after it, or None if its end is never reached."""
        expression_sites, is_editable = self.site_index.expression_sites, self.site_index.source_text.is_editable
        for statement in body:
            reader, num_sites = _READERS.get(type(statement)), len(expression_sites)
            names_after = reader(self, statement, names) if reader else names
            has_site = isinstance(statement, _SITE_STATEMENTS) and not self.is_class
            if has_site and is_editable(statement) and not self.is_guarded(statement):
                expression_site = expression_sites[num_sites] if len(expression_sites) > num_sites else None
                is_movable = names_after is not None and len(body) > 1 and self.is_local and self.guarded_names is None
                site = StatementSite(statement, names, self.usage, expression_site, is_movable)
                self.site_index.statement_sites.append(site)
            if names_after is None:
                return None
            names = names_after
        return names

    def define(self, node: Definition, names: NameKinds, usage: NameUsage) -> None:
        """Reads the body of a function or class. Its signature and decorators do not change."""
        body = strip_docstring(node.body)
        if isinstance(node, ast.ClassDef):
            BlockReader(self.site_index, usage, is_class=True).read(body, names)
            return
        local_names = collect_usage(node.body).stores if self.is_local else usage.stores
        # A local name shadows an outer one also before its assignment.
        outer_names = {name: kind for name, kind in names.items() if name not in local_names}
        inner_names = {**outer_names, **self._infer_arguments(node.args, usage)}
        BlockReader(self.site_index, usage, True, name_usage.parse_annotation(node.returns)).read(body, inner_names)

    def add_site(self, root: ast.expr, required_kind: Kind, names: NameKinds) -> None:
        if self.site_index.source_text.is_editable(root):
            self.site_index.expression_sites.append(ExpressionSite(root, required_kind, names, self.usage))

    def add_value_site(
        self, node: ast.Assign | ast.AnnAssign | ast.AugAssign, target: ast.expr, names: NameKinds
    ) -> Kind:
        """Adds the value of an assignment as a site, unless it ends a loop. Returns its kind."""
        assert node.value is not None
        kind = value_kinds.infer_kind(node.value, names)
        if not self.is_guarded(node):
            self.add_site(node.value, self.get_required_kind(kind, target), names)
        return kind

    def get_required_kind(self, kind: Kind, target: ast.expr | None = None) -> Kind:
        """Returns the required kind for a value of this kind that is assigned or returned."""
        if isinstance(target, ast.Name) and target.id in self.usage.integer_names and kind in value_kinds.SCALAR_KINDS:
            return "integer"
        return "number" if kind in INTEGER_KINDS else kind

    def bind_names(self, names: NameKinds, target: ast.expr, kind: Kind | tuple[Kind, ...]) -> NameKinds:
        """Returns the names plus those that a target binds."""
        bound = value_kinds.bind_target(target, kind)
        return {**names, **{name: self._refine_kind(name, name_kind) for name, name_kind in bound.items()}}

    def is_guarded(self, statement: ast.stmt) -> bool:
        """Returns whether a statement assigns to a guarded name or calls a method of it."""
        if not self.guarded_names:
            return False
        for node in list_nodes(statement):
            match node:
                case ast.Name(name) if name in self.guarded_names and not is_read(node):
                    return True
                case ast.Attribute(ast.Name(name)) if name in self.guarded_names:
                    return True
        return False

    def _refine_kind(self, name: str, kind: Kind) -> Kind:
        if name in self.usage.optional_names:
            return "other"
        if kind == "other":
            return self.usage.guess(name, self.site_index.number_kind) or "other"
        if name in self.usage.integer_names:
            return "integer" if kind == "number" else kind
        return "number" if kind == "integer" else kind  # it may become a fraction later

    def _infer_arguments(self, args: ast.arguments, usage: NameUsage) -> dict[str, Kind]:
        site_index, positional = self.site_index, [*args.posonlyargs, *args.args]
        argument_kinds: dict[str, Kind] = {
            argument.arg: name_usage.infer_argument_kind(
                argument.arg, argument.annotation, usage, site_index.vocabulary, site_index.number_kind
            )
            for argument in (*positional, *args.kwonlyargs)
        }
        defaults = [*zip(reversed(positional), reversed(args.defaults), strict=False)]
        for argument, default in (*defaults, *zip(args.kwonlyargs, args.kw_defaults, strict=True)):
            if isinstance(default, ast.Constant) and default.value is None:
                argument_kinds[argument.arg] = "other"
        argument_kinds |= {argument.arg: "items" for argument in (args.vararg,) if argument}
        return argument_kinds | {argument.arg: "other" for argument in (args.kwarg,) if argument}


def strip_docstring(body: Sequence[ast.stmt]) -> Sequence[ast.stmt]:
    match body:
        case [ast.Expr(ast.Constant(str())), *statements]:
            return statements
    return body


def get_imported_names(statement: ast.stmt) -> dict[str, Kind]:
    """Returns the names that an import binds."""
    match statement:
        case ast.Import(aliases):
            return {item.asname or item.name.partition(".")[0]: _MODULES.get(item.name, "other") for item in aliases}
        case ast.ImportFrom(module=module, names=aliases):
            kind: Kind = "function" if module in _MODULES else "other"
            return {alias.asname or alias.name: kind for alias in aliases}
    return {}


def _read_assignment(reader: BlockReader, node: ast.Assign, names: NameKinds) -> NameKinds:
    kind: Kind | tuple[Kind, ...] = reader.add_value_site(node, node.targets[0], names)
    if isinstance(node.value, ast.Tuple) and isinstance(node.targets[0], ast.Tuple):
        kind = tuple(value_kinds.infer_kind(element, names) for element in node.value.elts)
    for target in node.targets:
        names = reader.bind_names(names, target, kind)
    return names


def _read_annotated(reader: BlockReader, node: ast.AnnAssign, names: NameKinds) -> NameKinds:
    if node.value is None:
        return names
    kind = reader.add_value_site(node, node.target, names)
    return reader.bind_names(names, node.target, name_usage.parse_annotation(node.annotation) or kind)


def _read_augmented(reader: BlockReader, node: ast.AugAssign, names: NameKinds) -> NameKinds:
    reader.add_value_site(node, node.target, names)
    if not isinstance(node.target, ast.Name):
        return names
    operation = ast.BinOp(ast.Name(node.target.id, ast.Load()), node.op, node.value)
    return reader.bind_names(names, node.target, value_kinds.infer_kind(operation, names))


def _read_return(reader: BlockReader, node: ast.Return, names: NameKinds) -> None:
    if node.value is not None:
        kind = value_kinds.infer_kind(node.value, names)
        is_scalar = kind in value_kinds.SCALAR_KINDS | {"other"}
        is_annotated = reader.return_kind in ("integer", "number", "array") and is_scalar
        reader.add_site(node.value, (is_annotated and reader.return_kind) or reader.get_required_kind(kind), names)


def _read_expression(reader: BlockReader, node: ast.Expr, names: NameKinds) -> NameKinds:
    if not isinstance(node.value, ast.Constant) and not reader.is_guarded(node):
        reader.add_site(node.value, "other", names)
    return names


def _read_jump(reader: BlockReader, node: ast.stmt, names: NameKinds) -> None:
    return None


def _read_if(reader: BlockReader, node: ast.If, names: NameKinds) -> NameKinds | None:
    if reader.guarded_names is None or not _has_jump(node):
        reader.add_site(node.test, reader.get_required_kind(value_kinds.infer_kind(node.test, names)), names)
    branch_names = [reader.read(node.body, names), reader.read(node.orelse, names)]
    match [branch for branch in branch_names if branch is not None]:
        case []:
            return None
        case [first]:
            return first
        case [first, second]:
            common = [name for name in first if name in second]
            return {name: value_kinds.join_kinds((first[name], second[name])) for name in common}
    return names


def _read_for(reader: BlockReader, node: ast.For, names: NameKinds) -> NameKinds:
    """Reads a loop. Its iterable must keep its kind of items, so only parts of it may change."""
    reader.add_site(node.iter, "other", names)
    reader.read(node.body, reader.bind_names(names, node.target, value_kinds.infer_item_kinds(node.iter, names)))
    reader.read(node.orelse, names)
    return names


def _read_while(reader: BlockReader, node: ast.While, names: NameKinds) -> NameKinds:
    """Reads only the body. The test and code that changes its names stay."""
    tests = [node.test, *(child.test for child in list_nodes(node) if isinstance(child, ast.If) and _has_jump(child))]
    guarded_names = frozenset(child.id for child in list_nodes(*tests) if isinstance(child, ast.Name))
    replace(reader, guarded_names=guarded_names | (reader.guarded_names or frozenset())).read(node.body, names)
    reader.read(node.orelse, names)
    return names


def _read_with(reader: BlockReader, node: ast.With, names: NameKinds) -> NameKinds | None:
    for item in node.items:
        if item.optional_vars is not None:
            names = reader.bind_names(names, item.optional_vars, "other")
    return reader.read(node.body, names)


def _read_try(reader: BlockReader, node: ast.Try, names: NameKinds) -> NameKinds:
    for body in (node.body, *(handler.body for handler in node.handlers), node.orelse, node.finalbody):
        reader.read(body, names)
    return names


def _read_match(reader: BlockReader, node: ast.Match, names: NameKinds) -> NameKinds:
    for case in node.cases:
        reader.read(case.body, names)
    return names


def _read_definition(reader: BlockReader, node: Definition, names: NameKinds) -> NameKinds:
    names_after: NameKinds = {**names, node.name: "other"}
    if reader.is_local:
        reader.define(node, names_after, reader.usage)
    return names_after


def _read_deletion(reader: BlockReader, node: ast.Delete, names: NameKinds) -> NameKinds:
    deleted_names = {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {name: kind for name, kind in names.items() if name not in deleted_names}


def _read_import(reader: BlockReader, node: ast.stmt, names: NameKinds) -> NameKinds:
    return {**names, **get_imported_names(node)}


def _has_jump(node: ast.If) -> bool:
    return any(isinstance(child, ast.Break | ast.Return) for child in list_nodes(node))


_READERS: Mapping[type[ast.stmt], Callable[..., NameKinds | None]] = {
    ast.Assign: _read_assignment, ast.AnnAssign: _read_annotated, ast.AugAssign: _read_augmented,
    ast.Expr: _read_expression, ast.Return: _read_return, ast.If: _read_if, ast.For: _read_for, ast.While: _read_while,
    ast.With: _read_with, ast.Try: _read_try, ast.Match: _read_match, ast.FunctionDef: _read_definition,
    ast.ClassDef: _read_definition, ast.AsyncFunctionDef: _read_definition, ast.Import: _read_import,
    ast.ImportFrom: _read_import, ast.Delete: _read_deletion, ast.Raise: _read_jump, ast.Break: _read_jump,
    ast.Continue: _read_jump,
}  # fmt: skip

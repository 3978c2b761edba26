"""Syntax trees that are never changed: a change makes a new tree."""

import ast
from typing import Any

# What holds no statement and no expression of the program itself.
_CLOSED = frozenset({
    "ctx", "op", "ops", "annotation", "returns", "decorator_list", "type_params", "type_comment", "id", "attr",
    "arg", "name", "names", "module", "level", "kind",
})  # fmt: skip
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}  # the same whoever fills it first


def nodes(*trees: ast.AST) -> list[ast.AST]:
    """Returns all statements and expressions in trees, but for annotations and decorators.

    Three times as fast as `ast.walk`, which spends its time on operators and contexts.
    """
    found = list(trees)
    for node in found:  # it grows on the way
        kind = type(node)
        fields = _FIELDS.get(kind)
        if fields is None:
            fields = _FIELDS[kind] = tuple(name for name in kind._fields if name not in _CLOSED)
        for name in fields:
            value = getattr(node, name)
            if isinstance(value, ast.AST):
                found.append(value)
            elif isinstance(value, list):
                found += [each for each in value if isinstance(each, ast.AST)]
    return found


def replaced[T: ast.AST](tree: T, old: ast.AST, new: ast.AST) -> T:
    """Returns the tree with one node exchanged; what lies off the way to it is shared, not copied."""
    if tree is old:
        return new  # type: ignore[return-value]  # an expression for an expression
    for name in tree._fields:
        value: Any = getattr(tree, name, None)
        if isinstance(value, ast.AST):
            made: Any = replaced(value, old, new)
        elif isinstance(value, list):
            made = [replaced(each, old, new) if isinstance(each, ast.AST) else each for each in value]
            made = value if all(one is other for one, other in zip(made, value, strict=True)) else made
        else:
            continue
        if made is not value:
            fields = {each: getattr(tree, each, None) for each in tree._fields}
            return ast.copy_location(type(tree)(**(fields | {name: made})), tree)
    return tree


def same(one: Any, other: Any) -> bool:
    """Says whether two trees spell the same, wherever they stand."""
    if isinstance(one, ast.AST):
        if one is other:
            return True
        if type(one) is not type(other):
            return False
        return all(same(getattr(one, name, None), getattr(other, name, None)) for name in one._fields if name != "kind")
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    return type(one) is type(other) and bool(one == other)


def free_names(node: ast.AST) -> set[str]:
    """Returns the names that an expression reads from around it, not those of its own comprehensions and lambdas."""
    match node:
        case ast.Name(name, ast.Load()):
            return {name}
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            first = node.generators[0].iter  # read outside of the comprehension
            own = {each.id for part in node.generators for each in nodes(part.target) if isinstance(each, ast.Name)}
            return (_free_in(node) - own) | free_names(first)
        case ast.Lambda(args, body):
            own = {each.arg for each in nodes(args) if isinstance(each, ast.arg)}
            return (free_names(body) - own) | _free_in(args)
    return _free_in(node)


def _free_in(node: ast.AST) -> set[str]:
    return {name for child in ast.iter_child_nodes(node) for name in free_names(child)}

"""Which variables of the environment an evaluator reads."""

import ast
from collections.abc import Collection, Iterator, Sequence

_ASKING = {"get", "getenv", "pop", "setdefault"}
_GIVEN = {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONPATH", "PYTHONHASHSEED", "ENABLE_ARTIFACTS"}


def variables(source: str) -> Sequence[str]:
    """Returns the names that a source looks up in `os.environ`, sorted; of what is no Python, none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return sorted(set(_names(tree)) - _GIVEN)


def _names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=of, slice=ast.Constant(value=str(name)), ctx=ast.Load()) if _is_environ(of):
                yield name
            case ast.Call(func=ast.Attribute(value=of, attr=attr), args=[ast.Constant(value=str(name)), *_]):
                if attr in _ASKING and (_is_environ(of) or (attr == "getenv" and ast.unparse(of) == "os")):
                    yield name
            case ast.Call(func=ast.Name(id="getenv"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def _is_environ(node: ast.expr) -> bool:
    return ast.unparse(node) in ("os.environ", "environ")


def hint(source: str, seen: Collection[str]) -> str:
    """Says which variables an evaluator reads and does not see, and how to show them; empty: none."""
    hidden = [name for name in variables(source) if name not in seen]
    if not hidden:
        return ""
    listed = ", ".join(f'"{name}"' for name in hidden)
    return f"it reads {', '.join(hidden)} and does not see it; to show it: --set 'sandbox.env=[{listed}]'"

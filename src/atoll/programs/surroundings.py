"""Which variables of the environment an evaluator reads."""

import ast
from collections.abc import Collection, Iterator, Sequence

_LOOKUP_METHODS = {"get", "getenv", "pop", "setdefault"}
_ALWAYS_SET = {"PATH", "HOME", "TMPDIR", "LANG", "PYTHONPATH", "PYTHONHASHSEED", "ENABLE_ARTIFACTS"}


def find_variables(source: str) -> Sequence[str]:
    """Returns the names that a source looks up in `os.environ`, sorted; of what is no Python, none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError):
        return ()
    return sorted(set(_iter_names(tree)) - _ALWAYS_SET)


def _iter_names(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=owner, slice=ast.Constant(value=str(name)), ctx=ast.Load()) if _is_environ(owner):
                yield name
            case ast.Call(func=ast.Attribute(value=owner, attr=attr), args=[ast.Constant(value=str(name)), *_]):
                if attr in _LOOKUP_METHODS and (_is_environ(owner) or (attr == "getenv" and ast.unparse(owner) == "os")):
                    yield name
            case ast.Call(func=ast.Name(id="getenv"), args=[ast.Constant(value=str(name)), *_]):
                yield name


def _is_environ(node: ast.expr) -> bool:
    return ast.unparse(node) in ("os.environ", "environ")


def make_environment_hint(source: str, visible: Collection[str]) -> str:
    """Says which variables an evaluator reads and does not see, and how to show them; empty: none."""
    missing = [name for name in find_variables(source) if name not in visible]
    if not missing:
        return ""
    quoted = ", ".join(f'"{name}"' for name in missing)
    return f"it reads {', '.join(missing)} and does not see it; to show it: --set 'sandbox.env=[{quoted}]'"

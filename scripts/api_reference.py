#!/usr/bin/env python3
"""Writes docs/api.md, the reference of all public names, from the sources: scripts/api_reference.py [--check].

Names, signatures and first sentences are read from the sources without importing them. So no extra is needed, and the
page is the same on every machine. `--check` writes nothing and fails if the page is out of date.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
PAGE = ROOT / "docs" / "api.md"
# In layer order, from the kernel up. A package lists its own names, a module all without an underscore.
MODULES = [
    *("evolve", "errors", "profiler", "candidate", "evaluation", "gate", "journal", "control", "function"),
    *("archipelago", "versions", "cluster", "store", "llm", "sandbox", "executor", "mutation", "system", "playbook"),
    *(
        "governed",
        "governed.parameters",
        "governed.logs",
        "governed.feedback",
        "governed.replay",
        "governed.reflectors",
    ),
    *("governed.evaluators", "governed.ope", "governed.statistics", "governed.evolver", "governed.shadow"),
    *("governed.rollout", "governed.proposals", "governed.tools", "governed.skills", "governed.journals"),
    *("governed.generators", "governed.meta", "governed.reflections", "llmsr", "llmsr.fit", "llmsr.laws", "mind"),
    *("mind.context", "mind.workspace", "survival.grid", "survival.worlds.world", "config", "runs", "testing"),
]
HEAD = """# Reference

Every public name with its signature and its first sentence, made from the sources by `scripts/api_reference.py`; the
sources say more. How the parts work together is in [the kernel](kernel.md) and in [extending](extending.md), the
commands are in `atoll --help`, the settings in [settings](settings.md), and the dashboard describes its own at
`/openapi.json`.
"""

type Definition = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


class PublicName(NamedTuple):
    """Name and its definition; None if it is not a module, class or function."""

    name: str
    node: ast.Module | Definition | None


def path_of(module: str) -> Path:
    base = SOURCES.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


def public(module: str) -> list[PublicName]:
    """Returns the public names of a module in alphabetical order."""
    tree = ast.parse(path_of(module).read_text("utf-8"))
    message = declared(tree)
    if message is None:
        message = [item.name for item in tree.body if is_definition(item) and not item.name.startswith("_")]
    return [PublicName(name, definition(module, name)) for name in sorted(message, key=str.lower)]


def is_definition(node: ast.stmt) -> TypeGuard[Definition]:
    return isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)


def declared(tree: ast.Module) -> list[str] | None:
    """Returns the names in `__all__`, if it exists."""
    message = list(homes(tree)) or assigned(tree, "__all__")
    return message and [name for name in message if not name.startswith("_")]


def homes(tree: ast.Module) -> dict[str, str]:
    """Returns the modules of names that a package imports on first use."""
    return dict(assigned(tree, "_HOMES") or {})


def assigned(tree: ast.Module, name: str) -> Any:
    """Returns the value that a module assigns to a name; None if none."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == name:
            return ast.literal_eval(node.value)
    return None


def definition(module: str, name: str) -> ast.Module | Definition | None:
    """Follows the imports of a name to its definition."""
    if path_of(f"{module}.{name}").exists():
        return ast.parse(path_of(f"{module}.{name}").read_text("utf-8"))
    tree = ast.parse(path_of(module).read_text("utf-8"))
    if home := homes(tree).get(name):
        return definition(f"{module}.{home}", name)
    for node in tree.body:
        if is_definition(node) and node.name == name:
            return node
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("atoll"):
            for alias in node.names:
                if (alias.asname or alias.name) == name and path_of(node.module or "").exists():
                    return definition(node.module or "", alias.name)
    return None


def sentence(node: ast.Module | Definition) -> str:
    """Returns the first paragraph of a docstring on one line."""
    text = ast.get_docstring(node)
    return " ".join((text or "").split("\n\n")[0].split())


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef, *, is_method: bool = False) -> str:
    arguments = ast.unparse(node.args)
    if is_method and not any(ast.unparse(item) == "staticmethod" for item in node.decorator_list):
        arguments = arguments.partition(", ")[2] if ", " in arguments else ""
    returned = f" -> {ast.unparse(node.return_kind)}" if node.return_kind else ""
    return f"{node.name}({arguments}){returned}"


def lines(result: PublicName) -> Iterator[str]:
    node = result.node
    if node is None or isinstance(node, ast.Module):
        yield f"- `{result.name}` {sentence(node) if node else ''}".rstrip()
    elif isinstance(node, ast.ClassDef):
        created = next((item for item in node.body if is_definition(item) and item.name == "__init__"), None)
        arguments = signature(created, is_method=True).removeprefix("__init__").rpartition(" -> ")[0] if created else ""
        yield f"- `class {result.name}{arguments}` {sentence(node)}".rstrip()
        yield from methods(node)
    else:
        yield f"- `{signature(node)}` {sentence(node)}".rstrip()


def methods(node: ast.ClassDef) -> Iterator[str]:
    for item in node.body:
        if isinstance(item, ast.AnnAssign) and not ast.unparse(item.target).startswith("_"):
            yield f"    - `{ast.unparse(item.target)}: {ast.unparse(item.annotation)}`"
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef) and not item.name.startswith("_"):
            is_property = any(ast.unparse(mark) in ("property", "cached_property") for mark in item.decorator_list)
            displayed = item.name if is_property else signature(item, is_method=True)
            yield f"    - `{displayed}` {sentence(item)}".rstrip()


def page() -> str:
    parts = [HEAD]
    for short in MODULES:
        module = f"atoll.{short}"
        about = sentence(ast.parse(path_of(module).read_text("utf-8")))
        names = [line for result in public(module) for line in lines(result)]
        parts.append("\n".join([f"## `{module}`", "", about, "", *names, ""]))
    return "\n".join(parts)


def main() -> None:
    text = page()
    if "--check" in sys.argv[1:]:
        if not PAGE.exists() or PAGE.read_text("utf-8") != text:
            sys.exit("docs/api.md is out of date. Run scripts/api_reference.py.")
    else:
        PAGE.write_text(text, "utf-8")


if __name__ == "__main__":
    main()

"""The source of one Python function: its parts, and its text with another name, docstring or body.

Text is cut and put together by the positions of the syntax tree, so that comments and layout survive.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType
from typing import Any

from atoll import errors

LAMBDA = "is a lambda; write it with 'def', so that it has a name, a docstring and lines that can change"


@dataclass(frozen=True, slots=True)
class Source:
    """One function as text.

    Attributes:
        name: What it is called.
        header: From `def` to the colon, on one line or several.
        docstring: As `inspect.getdoc` gives it; empty where there is none.
        documentation: The docstring as it stands in the source, quotes and all; empty where there is none.
        body: The lines after the docstring as they stand: a text in them may reach over several lines.
        indent: What its statements begin with.
        arguments: The names of its arguments.
    """

    name: str
    header: str
    docstring: str
    documentation: str
    body: str
    indent: str
    arguments: tuple[str, ...]

    @property
    def text(self) -> str:
        """The whole function."""
        return self.with_docstring(self.documentation)

    def with_docstring(self, documentation: str) -> str:
        """Returns the whole function with another docstring, given with its quotes; empty: with none."""
        return "\n".join((self.header, *([self.indent + documentation] if documentation else []), self.body, ""))

    def renamed(self, name: str) -> "Source":
        """Returns it under another name; calls of itself follow."""
        header = re.sub(rf"\b(def\s+){self.name}\b", rf"\g<1>{name}", self.header, count=1)
        return replace(self, name=name, header=header, body=self._renamed_body(name))

    def _renamed_body(self, name: str) -> str:
        text = f"def _():\n{self.body}"
        lines = text.encode().splitlines(keepends=True)
        names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
        places = [(node.lineno - 1, node.col_offset) for node in names if node.id == self.name]
        for line, column in sorted(places, reverse=True):
            old = lines[line]
            lines[line] = old[:column] + name.encode() + old[column + len(self.name.encode()) :]
        _, _, body = b"".join(lines).decode().partition("\n")
        return body


def functions(text: str) -> Iterator[Source]:
    """Yields the top-level functions of a module's text, decorators left out.

    Raises:
        SyntaxError: It is no Python.
    """
    lines = [line.decode() for line in text.encode().splitlines(keepends=True)]  # as Python counts: no form feeds
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            yield _cut(node, lines)


def _cut(node: ast.FunctionDef, lines: list[str]) -> Source:
    document, first = ast.get_docstring(node), node.body[0]
    statements = node.body if document is None else node.body[1:]
    if _shares_header(node, lines):  # `def f(x): return x`
        line = lines[first.lineno - 1].encode()
        header = "".join(lines[node.lineno - 1 : first.lineno - 1]) + line[: first.col_offset].decode().rstrip()
        indent, rest = "    ", line[first.col_offset :].decode().strip()
        quoted, body = (rest, "") if document is not None else ("", indent + rest)
    else:
        indent = lines[first.lineno - 1][: first.col_offset]
        end, start = _end_of_header(node, lines), (first.end_lineno or 0) if document is not None else 0
        header = "".join(lines[node.lineno - 1 : end]).rstrip()
        quoted = "".join(lines[first.lineno - 1 : start]).strip() if document is not None else ""
        body = "".join(lines[start or end : node.end_lineno]).strip("\n") if statements else ""
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
    names = tuple(argument.arg for argument in arguments if argument)
    return Source(node.name, header, document or "", quoted, body or f"{indent}pass", indent, names)


def _shares_header(node: ast.FunctionDef, lines: list[str]) -> bool:
    """Says whether the first statement stands on the line of the colon."""
    first = node.body[0]
    return bool(lines[first.lineno - 1].encode()[: first.col_offset].strip())


def _end_of_header(node: ast.FunctionDef, lines: list[str]) -> int:
    """Returns the number of the header's last line: the one before what follows, comments not counted."""
    number = node.body[0].lineno - 1
    while number > node.lineno and lines[number - 1].strip()[:1] in ("#", ""):
        number -= 1
    return number


def of_function(fn: Callable[..., Any]) -> Source:
    """Returns the source of a live function.

    Raises:
        SetupError: It is no function defined with `def`, or its source cannot be found.
    """
    if not isinstance(fn, FunctionType):
        raise errors.SetupError(f"The equation is a {type(fn).__name__}: give a function defined with 'def'.")
    if fn.__name__ == "<lambda>":
        raise errors.SetupError(f"The equation {LAMBDA}.")
    try:
        text = textwrap.dedent(inspect.getsource(fn))
    except OSError as error:
        raise errors.SetupError(f"The source of {fn.__name__} was not found: define it in a file.") from error
    try:
        found = next(functions(text), None)
    except SyntaxError as error:
        raise errors.SetupError(
            f"The source of {fn.__name__} cannot be read ({error}): define it in a module."
        ) from error
    if found is None:
        raise errors.SetupError(f"{fn.__name__} is not defined with a plain 'def': an equation is no coroutine.")
    return found


def of_file(path: Path, name: str) -> Source:
    """Returns the source of a function in a file, which is read and not run.

    Raises:
        SetupError: The file does not define it, or is no Python.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        found = {source.name: source for source in functions(text)}
    except OSError as error:
        raise errors.SetupError(f"{path} cannot be read ({error.strerror}): task.file must name a file.") from error
    except (SyntaxError, ValueError) as error:
        said = str(error).replace("<unknown>, ", "")  # a text has no name; the sentence gives it one
        raise errors.SetupError(f"{path} is no Python: {said}.") from error
    if name in found:
        return found[name]
    if name in _lambdas(text):
        raise errors.SetupError(f"{name} in {path} {LAMBDA}.")
    there = f"it defines {', '.join(found)}" if found else "it defines none"
    raise errors.SetupError(f"{path} defines no function {name} ({there}): set task.function to one of its own.")


def _lambdas(text: str) -> set[str]:
    assigned = (node for node in ast.parse(text).body if isinstance(node, ast.Assign))
    lambdas = (node for node in assigned if isinstance(node.value, ast.Lambda))
    return {target.id for node in lambdas for target in node.targets if isinstance(target, ast.Name)}

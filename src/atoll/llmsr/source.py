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

LAMBDA_MESSAGE = "is a lambda; write it with 'def', so that it has a name, a docstring and lines that can change"


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

    def rename(self, name: str) -> "Source":
        """Returns it under another name; calls of itself follow."""
        header = re.sub(rf"\b(def\s+){self.name}\b", rf"\g<1>{name}", self.header, count=1)
        return replace(self, name=name, header=header, body=self._rename_in_body(name))

    def _rename_in_body(self, name: str) -> str:
        text = f"def _():\n{self.body}"
        lines = text.encode().splitlines(keepends=True)
        names = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)]
        positions = [(node.lineno - 1, node.col_offset) for node in names if node.id == self.name]
        for line, column in sorted(positions, reverse=True):
            old = lines[line]
            lines[line] = old[:column] + name.encode() + old[column + len(self.name.encode()) :]
        _, _, body = b"".join(lines).decode().partition("\n")
        return body


def parse_functions(text: str) -> Iterator[Source]:
    """Yields the top-level functions of a module's text, decorators left out.

    Raises:
        SyntaxError: It is no Python.
    """
    lines = [line.decode() for line in text.encode().splitlines(keepends=True)]  # as Python counts: no form feeds
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            yield _parse_function(node, lines)


def _parse_function(node: ast.FunctionDef, lines: list[str]) -> Source:
    docstring, first_statement = ast.get_docstring(node), node.body[0]
    statements = node.body if docstring is None else node.body[1:]
    if _shares_header(node, lines):  # `def f(x): return x`
        line = lines[first_statement.lineno - 1].encode()
        header = (
            "".join(lines[node.lineno - 1 : first_statement.lineno - 1])
            + line[: first_statement.col_offset].decode().rstrip()
        )
        indent, statement_text = "    ", line[first_statement.col_offset :].decode().strip()
        documentation, body = (statement_text, "") if docstring is not None else ("", indent + statement_text)
    else:
        indent = lines[first_statement.lineno - 1][: first_statement.col_offset]
        header_end, docstring_end = (
            _find_header_end(node, lines),
            (first_statement.end_lineno or 0) if docstring is not None else 0,
        )
        header = "".join(lines[node.lineno - 1 : header_end]).rstrip()
        documentation = (
            "".join(lines[first_statement.lineno - 1 : docstring_end]).strip() if docstring is not None else ""
        )
        body = "".join(lines[docstring_end or header_end : node.end_lineno]).strip("\n") if statements else ""
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
    names = tuple(argument.arg for argument in arguments if argument)
    return Source(node.name, header, docstring or "", documentation, body or f"{indent}pass", indent, names)


def _shares_header(node: ast.FunctionDef, lines: list[str]) -> bool:
    """Says whether the first statement stands on the line of the colon."""
    first_statement = node.body[0]
    return bool(lines[first_statement.lineno - 1].encode()[: first_statement.col_offset].strip())


def _find_header_end(node: ast.FunctionDef, lines: list[str]) -> int:
    """Returns the number of the header's last line: the one before what follows, comments not counted."""
    line_number = node.body[0].lineno - 1
    while line_number > node.lineno and lines[line_number - 1].strip()[:1] in ("#", ""):
        line_number -= 1
    return line_number


def get_function_source(fn: Callable[..., Any]) -> Source:
    """Returns the source of a live function.

    Raises:
        SetupError: It is no function defined with `def`, or its source cannot be found.
    """
    if not isinstance(fn, FunctionType):
        raise errors.SetupError(f"The equation is a {type(fn).__name__}: give a function defined with 'def'.")
    if fn.__name__ == "<lambda>":
        raise errors.SetupError(f"The equation {LAMBDA_MESSAGE}.")
    try:
        text = textwrap.dedent(inspect.getsource(fn))
    except OSError as error:
        raise errors.SetupError(f"The source of {fn.__name__} was not found: define it in a file.") from error
    try:
        function_source = next(parse_functions(text), None)
    except SyntaxError as error:
        raise errors.SetupError(
            f"The source of {fn.__name__} cannot be read ({error}): define it in a module."
        ) from error
    if function_source is None:
        raise errors.SetupError(f"{fn.__name__} is not defined with a plain 'def': an equation is no coroutine.")
    return function_source


def load_function_source(path: Path, name: str) -> Source:
    """Returns the source of a function in a file, which is read and not run.

    Raises:
        SetupError: The file does not define it, or is no Python.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        sources = {source.name: source for source in parse_functions(text)}
    except OSError as error:
        raise errors.SetupError(f"{path} cannot be read ({error.strerror}): task.file must name a file.") from error
    except (SyntaxError, ValueError) as error:
        message = str(error).replace("<unknown>, ", "")  # a text has no name; the sentence gives it one
        raise errors.SetupError(f"{path} is no Python: {message}.") from error
    if name in sources:
        return sources[name]
    if name in _find_lambda_names(text):
        raise errors.SetupError(f"{name} in {path} {LAMBDA_MESSAGE}.")
    defined_names = f"it defines {', '.join(sources)}" if sources else "it defines none"
    raise errors.SetupError(
        f"{path} defines no function {name} ({defined_names}): set task.function to one of its own."
    )


def _find_lambda_names(text: str) -> set[str]:
    assigned = (node for node in ast.parse(text).body if isinstance(node, ast.Assign))
    lambdas = (node for node in assigned if isinstance(node.value, ast.Lambda))
    return {target.id for node in lambdas for target in node.targets if isinstance(target, ast.Name)}

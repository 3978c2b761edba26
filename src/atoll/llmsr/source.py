"""Source of one Python function in parts, to change its name, docstring or body; tasks that score outputs.

The text is split by positions of the syntax tree, so comments and layout are kept.
"""

import ast
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, NamedTuple

from atoll import errors
from atoll.llmsr.config import Task
from atoll.sandbox import module_loader

LAMBDA_MESSAGE = "is a lambda. Write it with 'def', so that it has a name, a docstring and lines that can change"


@dataclass(frozen=True, slots=True)
class Source:
    """One function as text.

    Attributes:
        name: Name of the function.
        header: Text from `def` to the colon, on one line or several.
        docstring: The docstring as `inspect.getdoc` returns it, or an empty string.
        documentation: The docstring as in the source, with quotes, or an empty string.
        body: The lines after the docstring, unchanged.
        indent: Indentation of its statements.
        arguments: Names of its arguments.
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
        """The complete function."""
        return self.with_docstring(self.documentation)

    def with_docstring(self, documentation: str) -> str:
        """Returns the complete function with another docstring in quotes, or with none if it is empty."""
        return "\n".join((self.header, *([self.indent + documentation] if documentation else []), self.body, ""))

    def rename(self, name: str) -> "Source":
        """Returns the function with another name, also in recursive calls."""
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
    """Yields the top-level functions of a module without decorators.

    Raises:
        SyntaxError: The text is not valid Python.
    """
    lines = [line.decode() for line in text.encode().splitlines(keepends=True)]  # not split at form feeds
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            yield _parse_function(node, lines)


def _parse_function(node: ast.FunctionDef, lines: list[str]) -> Source:
    docstring, first_statement = ast.get_docstring(node), node.body[0]
    statements = node.body if docstring is None else node.body[1:]
    if _shares_header(node, lines):  # `def f(x): return x`
        line = lines[first_statement.lineno - 1].encode()
        header = "".join(lines[node.lineno - 1 : first_statement.lineno - 1])
        header += line[: first_statement.col_offset].decode().rstrip()
        indent, statement_text = "    ", line[first_statement.col_offset :].decode().strip()
        documentation, body = (statement_text, "") if docstring is not None else ("", indent + statement_text)
    else:
        indent = lines[first_statement.lineno - 1][: first_statement.col_offset]
        header_end = _find_header_end(node, lines)
        docstring_end = (first_statement.end_lineno or 0) if docstring is not None else 0
        header = "".join(lines[node.lineno - 1 : header_end]).rstrip()
        documentation = "".join(lines[first_statement.lineno - 1 : docstring_end]).strip()
        body = "".join(lines[docstring_end or header_end : node.end_lineno]).strip("\n") if statements else ""
    arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
    names = tuple(argument.arg for argument in arguments if argument)
    return Source(node.name, header, docstring or "", documentation, body or f"{indent}pass", indent, names)


def _shares_header(node: ast.FunctionDef, lines: list[str]) -> bool:
    """Returns whether the first statement is on the line of the colon."""
    first_statement = node.body[0]
    return bool(lines[first_statement.lineno - 1].encode()[: first_statement.col_offset].strip())


def _find_header_end(node: ast.FunctionDef, lines: list[str]) -> int:
    """Returns the number of the last line of the header, before comments and blank lines."""
    line_number = node.body[0].lineno - 1
    while line_number > node.lineno and lines[line_number - 1].strip()[:1] in ("#", ""):
        line_number -= 1
    return line_number


def get_function_source(fn: Callable[..., Any]) -> Source:
    """Returns the source of a live function.

    Raises:
        SetupError: It is not a function defined with `def`, or its source is not available.
    """
    if not isinstance(fn, FunctionType):
        raise errors.SetupError(f"The equation is of type {type(fn).__name__}. Pass a function defined with 'def'.")
    if fn.__name__ == "<lambda>":
        raise errors.SetupError(f"The equation {LAMBDA_MESSAGE}.")
    try:
        text = textwrap.dedent(inspect.getsource(fn))
    except OSError as error:
        raise errors.SetupError(f"The source of {fn.__name__} was not found. Define it in a file.") from error
    try:
        function_source = next(parse_functions(text), None)
    except SyntaxError as error:
        raise errors.SetupError(f"The source of {fn.__name__} is invalid ({error}). Define it in a module.") from error
    if function_source is None:
        raise errors.SetupError(f"{fn.__name__} is not defined with a plain 'def'. Coroutines are not supported.")
    return function_source


def load_function_source(path: Path, name: str) -> Source:
    """Returns the source of a function in a file. The file is not run.

    Raises:
        SetupError: The file does not define the function, or is not valid Python.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
        sources = {source.name: source for source in parse_functions(text)}
    except OSError as error:
        raise errors.SetupError(f"{path} cannot be read ({error.strerror}). Set task.file to a file.") from error
    except (SyntaxError, ValueError) as error:
        message = str(error).replace("<unknown>, ", "")  # the message has the path instead
        raise errors.SetupError(
            f"{path} is not valid Python: {message}. Fix it, or set task.file to another file."
        ) from error
    if name in sources:
        return sources[name]
    if name in _find_lambda_names(text):
        raise errors.SetupError(f"{name} in {path} {LAMBDA_MESSAGE}.")
    defined_names = f"only {', '.join(sources)}" if sources else "and no other"
    raise errors.SetupError(
        f"{path} does not define the function {name}, {defined_names}. Set task.function in atoll.toml."
    )


def _find_lambda_names(text: str) -> set[str]:
    assigned = (node for node in ast.parse(text).body if isinstance(node, ast.Assign))
    lambdas = (node for node in assigned if isinstance(node.value, ast.Lambda))
    return {target.id for node in lambdas for target in node.targets if isinstance(target, ast.Name)}


SCORE_NAME = "score"


class OutputTask(NamedTuple):
    """Loaded task file.

    Attributes:
        function: The initial function.
        score: Scores (output, case); higher is better.
        arguments: The arguments of each call.
        cases: The case of each call, for the scorer only.
        modules: The modules that the file imports, by name.
    """

    function: Callable[..., Any]
    score: Callable[[Any, Any], float]
    arguments: Sequence[Sequence[Any]]
    cases: Sequence[Any]
    modules: dict[str, ModuleType]


def is_output_task(text: str, task: Task) -> bool:
    """Returns whether a task file defines `score(output, case)` and no evaluator."""
    functions = {node.name: node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)}
    scorer = functions.get(SCORE_NAME)
    return task.evaluator not in functions and scorer is not None and len(scorer.args.args) == 2


def load_output_task(path: Path, task: Task) -> OutputTask:
    """Runs a task file in this process and checks its inputs.

    Raises:
        SetupError: The file cannot be run, or its inputs are not pairs.
    """
    try:
        module = module_loader.load_module(str(path), "atoll_task")
        inputs: Any = getattr(module, task.inputs)
        pairs = list(inputs() if callable(inputs) else inputs)
    except Exception as error:  # the task's own code may raise anything
        raise errors.SetupError(f"{path} cannot be loaded: {type(error).__name__}: {error}.") from error
    for index, pair in enumerate(pairs):
        if not isinstance(pair, Sequence) or len(pair) != 2 or not isinstance(pair[0], Sequence | str):
            raise errors.SetupError(
                f"{path}: {task.inputs}[{index}] is {pair!r:.60}. With score(output, case), each input must be a pair"
                " (arguments, case), such as ((1.0, 2.0), 3.0)."
            )
    modules = {name: value for name, value in vars(module).items() if inspect.ismodule(value)}
    function: Callable[..., Any] = getattr(module, task.function)
    return OutputTask(function, getattr(module, SCORE_NAME), [a for a, _ in pairs], [c for _, c in pairs], modules)

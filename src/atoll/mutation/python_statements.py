"""Top-level statements of Python programs: their names, and the names that a program needs."""

import ast
import builtins
import re
import symtable
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from types import CodeType

from atoll.mutation.text_blocks import find_evolve_blocks

_PARSE_ERRORS = (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError)


@dataclass(frozen=True, slots=True)
class Segment:
    """Top-level statements that share lines, with the comments above them.

    Attributes:
        text: Source lines.
        names: Names that the statements bind.
        dump: Syntax tree as text, to compare statements.
        nodes: The statements.
    """

    text: str
    names: frozenset[str]
    dump: str
    nodes: Sequence[ast.stmt] = field(repr=False)

    @property
    def is_import(self) -> bool:
        return all(isinstance(node, ast.Import | ast.ImportFrom) for node in self.nodes)

    @property
    def is_definition(self) -> bool:
        return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) for node in self.nodes)


@lru_cache(maxsize=32)
def parse_python(text: str) -> ast.Module | None:
    """Returns the syntax tree of a text; None if it is not valid Python."""
    try:
        return ast.parse(text)
    except _PARSE_ERRORS:
        return None


# A docstring at the start of a file, in three quotes; and a possible constant as a statement.
_DOCSTRING = re.compile(r'\A(?:[ \t]*(?:#[^\n]*)?\n)*"""(?:[^"\\]|"(?!""))*"""[ \t]*(?=\n)')
_BARE_CONSTANT = re.compile(r"^(?:[rRuUbBfF]{0,2}[\"']|[\d.(]|-\d|None\b|True\b|False\b)|;", re.MULTILINE)
_FILE_NAME = "<candidate>"
# Warnings about candidates are not shown; only candidates have this file name.
warnings.filterwarnings("ignore", category=SyntaxWarning, module=_FILE_NAME)


@lru_cache(maxsize=8)  # the reader and the search for duplicates need the same code
def compile_python(text: str) -> CodeType | None:
    """Compiles a program, without docstrings and asserts, and without running it; None if it is invalid."""
    stripped = _DOCSTRING.sub(lambda match: "\n" * match[0].count("\n"), text, count=1)
    try:
        if not _BARE_CONSTANT.search(stripped):  # the common case; building a syntax tree takes twice as long
            return compile(stripped, _FILE_NAME, "exec", dont_inherit=True, optimize=2)
        tree = ast.parse(text, _FILE_NAME)
        tree.body = [node for node in tree.body if not _is_constant_statement(node)]
        return compile(tree, _FILE_NAME, "exec", dont_inherit=True, optimize=2)
    except _PARSE_ERRORS:
        return None


def _is_constant_statement(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


@lru_cache(maxsize=32)  # the parts of one response are compared several times
def split_segments(text: str) -> Sequence[Segment] | None:
    """Returns the top-level statements of a Python text; None if it is not valid or nested too deeply to compare."""
    tree = parse_python(text)
    try:
        return None if tree is None else _split_tree(text, tree)
    except RecursionError:
        return None


def _split_tree(text: str, tree: ast.Module) -> Sequence[Segment]:
    lines, segments = text.split("\n"), list[Segment]()
    position, group, group_end = 0, list[ast.stmt](), 0
    for node in tree.body:
        first = min([node.lineno, *(decorator.lineno for decorator in getattr(node, "decorator_list", ()))])
        if group and first > group_end:
            segments.append(_make_segment(lines[position:group_end], group))
            position, group = group_end, []
        group.append(node)
        group_end = max(group_end, node.end_lineno or first)
    if group:
        segments.append(_make_segment(lines[position:group_end], group))
    return segments


def _make_segment(lines: Sequence[str], nodes: Sequence[ast.stmt]) -> Segment:
    names = frozenset(name for node in nodes for name in _iter_bound_names(node))
    text = "\n".join(lines).rstrip() + "\n"
    return Segment(text, names, _dump(text) or "".join(map(ast.dump, nodes)), tuple(nodes))


@lru_cache(maxsize=256)  # a child has most statements of its parent, and parsing is much cheaper than a dump
def _dump(text: str) -> str:
    """Returns a text that is equal for equal syntax trees; empty if the statements are not valid by themselves."""
    try:
        return "".join(map(ast.dump, ast.parse(text).body))
    except _PARSE_ERRORS:
        return ""


def _iter_bound_names(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield node.name
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).split(".")[0] for alias in node.names)
    else:
        children: list[ast.AST] = [node]
        while children:
            child = children.pop()
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                yield child.id
            elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Import | ast.ImportFrom):
                yield from _iter_bound_names(child)
            elif not isinstance(child, ast.Lambda | ast.comprehension):  # these have their own names
                children += ast.iter_child_nodes(child)


@lru_cache(maxsize=32)
def find_unbound_names(text: str) -> frozenset[str]:
    """Returns the global names that a Python text uses and never binds."""
    try:
        table = symtable.symtable(text, "<program>", "exec")
    except _PARSE_ERRORS:
        return frozenset()
    bound = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    used, tables = set[str](), [table]
    while tables:
        current = tables.pop()
        tables += current.get_children()
        symbols = current.get_symbols()
        bound |= {symbol.get_name() for symbol in symbols if symbol.is_declared_global() and symbol.is_assigned()}
        used |= {
            symbol.get_name()
            for symbol in symbols
            if symbol.is_referenced() and (symbol.is_global() or current.get_type() == "module")
        }
    return frozenset(used - bound - set(vars(builtins)) - {"__file__", "__name__"})


def split_fixed(lines: Sequence[str], blocks: Sequence[tuple[int, int]]) -> Sequence[Segment]:
    """Returns the statements outside of the blocks; none if they are not valid by themselves."""
    editable = {index for first, end in blocks for index in range(first, end)}
    return split_segments("\n".join(line for index, line in enumerate(lines) if index not in editable)) or []


def collect_names(segments: Iterable[Segment]) -> set[str]:
    return {name for segment in segments for name in segment.names}


def is_main_guard(segment: Segment) -> bool:
    return any(isinstance(node, ast.If) and "__name__" in ast.dump(node.test) for node in segment.nodes)


@lru_cache(maxsize=32)
def find_signature(program: str, name: str) -> str:
    """Returns `name(arguments)` of a top-level function, as in its source; empty if there is none."""
    tree = parse_python(program)
    for node in tree.body if tree else ():
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name == name:
            returns = f" -> {ast.unparse(node.returns)}" if node.returns else ""
            return f"{name}({ast.unparse(node.args)}){returns}"
    return ""


def find_required_names(program: str, evaluator: str = "") -> Sequence[str]:
    """Returns the functions and classes of a Python program that its caller needs.

    Those that the evaluator or the fixed code names; without any, those that no other part of the program uses.
    """
    lines = program.split("\n")
    blocks, segments = find_evolve_blocks(lines), split_segments(program)
    if segments is None:
        return ()
    editable = split_segments("\n".join("\n".join(lines[first:end]) for first, end in blocks)) if blocks else segments
    if editable is None:
        return ()
    defined = [name for segment in editable if segment.is_definition for name in sorted(segment.names)]
    fixed = split_fixed(lines, blocks) if blocks else []
    fixed_names = {name for segment in fixed for name in iter_used_names(segment.nodes)}
    called = fixed_names | set(re.findall(r"\w+", evaluator))
    if needed := [name for name in defined if name in called]:
        return needed
    used = {
        name
        for segment in editable
        for name in iter_used_names(segment.nodes)
        if not (segment.is_definition and name in segment.names) and not is_main_guard(segment)
    }
    return [name for name in defined if name not in used and not name.startswith("_")]


def iter_used_names(nodes: Iterable[ast.stmt]) -> Iterator[str]:
    for tree in nodes:
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                yield node.id

"""Source text with offsets of its syntax nodes, so that an edit leaves all other bytes unchanged."""

import ast
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

_NEWLINE = re.compile(r"\r\n|\r|\n")  # as the tokenizer counts lines: str.splitlines() also splits at form feeds
_MARKER = re.compile(r"#[ \t]*EVOLVE-BLOCK-(START|END)\b")
_WORD = re.compile(r"\w")


class Splice(NamedTuple):
    """Text that replaces the characters from `start` to `end`."""

    start: int
    end: int
    text: str


def apply_splices(text: str, splices: Sequence[Splice]) -> str:
    """Returns the text with all splices applied. They must not overlap."""
    for start, end, new in sorted(splices, reverse=True):
        text = text[:start] + new + text[end:]
    return text


class SourceText:
    """Text that maps syntax nodes to offsets."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0, *(match.end() for match in _NEWLINE.finditer(text))]
        self._is_ascii = text.isascii()
        newline = _NEWLINE.search(text)
        self.newline = newline.group() if newline else "\n"
        self._blocks = self._read_blocks()

    def get_span(self, node: ast.expr | ast.stmt) -> tuple[int, int]:
        """Returns the start and end offset of a node."""
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return self._get_offset(node.lineno, node.col_offset), self._get_offset(end_line, end_column)

    def is_editable(self, node: ast.expr | ast.stmt) -> bool:
        """Returns whether a node may change: with markers, only nodes between them may."""
        if self._blocks is None:
            return True
        end = node.end_lineno or node.lineno
        return any(first < node.lineno and end < last for first, last in self._blocks)

    def make_replacement(self, node: ast.expr, new: ast.expr) -> Splice:
        """Returns the splice for a complete value, test or iterable of a statement."""
        start, end = self.get_span(node)
        before = " " if start and _WORD.match(self.text[start - 1]) else ""  # return(x) has no space to keep
        after = " " if _WORD.match(self.text[end : end + 1]) else ""
        return Splice(start, end, before + ast.unparse(new) + after)

    def get_indent(self, statement: ast.stmt) -> str | None:
        """Returns the indentation of a statement; None if it shares a line with other code."""
        start, end = self.get_span(statement)
        before = self.text[self._starts[statement.lineno - 1] : start]
        trailing_text = self.text[end : self.get_line_span(statement)[1]].strip()
        is_alone = not before.strip() and (not trailing_text or trailing_text.startswith("#"))
        return before if is_alone and not self.text.startswith("elif", start) else None

    def get_line_span(self, statement: ast.stmt) -> tuple[int, int]:
        """Returns the span of its complete lines, with the last newline."""
        last = statement.end_lineno or statement.lineno
        end = self._starts[last] if last < len(self._starts) else len(self.text)
        return self._starts[statement.lineno - 1], end

    def _get_offset(self, line: int, column: int) -> int:
        start = self._starts[line - 1]
        if self._is_ascii:
            return start + column
        # Columns count bytes of UTF-8.
        end = self._starts[line] if line < len(self._starts) else len(self.text)
        return start + len(self.text[start:end].encode()[:column].decode(errors="ignore"))

    def _read_blocks(self) -> Sequence[tuple[int, int]] | None:
        """Returns the numbers of the marker lines in pairs; None without markers."""
        marks = [(mark.group(1), bisect_right(self._starts, mark.start())) for mark in _MARKER.finditer(self.text)]
        if not marks:
            return None
        kinds = [kind for kind, _ in marks]
        if kinds != ["START", "END"] * (len(marks) // 2):
            raise ValueError("The EVOLVE-BLOCK markers are not in pairs. Write one END after each START.")
        return [(first, last) for (_, first), (_, last) in zip(marks[::2], marks[1::2], strict=True)]


# Fields without a statement or expression of the program.
_SKIPPED_FIELDS = frozenset({
    "ctx", "op", "ops", "annotation", "returns", "decorator_list", "type_params", "type_comment", "id", "attr",
    "arg", "name", "names", "module", "level", "kind",
})  # fmt: skip
_FIELDS: dict[type[ast.AST], tuple[str, ...]] = {ast.Constant: ()}  # a cache; any thread may fill it


def list_nodes(*trees: ast.AST) -> list[ast.AST]:
    """Returns all statements and expressions in trees, without annotations and decorators.

    It is three times as fast as `ast.walk`, which also visits operators and contexts.
    """
    collected = list(trees)
    for node in collected:  # it grows during the loop
        node_type = type(node)
        fields = _FIELDS.get(node_type)
        if fields is None:
            fields = _FIELDS[node_type] = tuple(name for name in node_type._fields if name not in _SKIPPED_FIELDS)
        for name in fields:
            value = getattr(node, name)
            if isinstance(value, ast.AST):
                collected.append(value)
            elif isinstance(value, list):
                collected += [child for child in value if isinstance(child, ast.AST)]
    return collected


def replace_node[T: ast.AST](tree: T, old: ast.AST, new: ast.AST) -> T:
    """Returns the tree with one node replaced. Only the path to the node is copied."""
    if tree is old:
        return new  # type: ignore[return-value]  # an expression for an expression
    for name in tree._fields:
        value: Any = getattr(tree, name, None)
        if isinstance(value, ast.AST):
            new_value: Any = replace_node(value, old, new)
        elif isinstance(value, list):
            new_value = [replace_node(item, old, new) if isinstance(item, ast.AST) else item for item in value]
            is_unchanged = all(new_item is old_item for new_item, old_item in zip(new_value, value, strict=True))
            new_value = value if is_unchanged else new_value
        else:
            continue
        if new_value is not value:
            fields = {field_name: getattr(tree, field_name, None) for field_name in tree._fields}
            return ast.copy_location(type(tree)(**(fields | {name: new_value})), tree)
    return tree


def is_same(first: Any, second: Any) -> bool:
    """Returns whether two trees are equal, regardless of their positions."""
    if isinstance(first, ast.AST):
        if first is second:
            return True
        if type(first) is not type(second):
            return False
        names = [name for name in first._fields if name != "kind"]
        return all(is_same(getattr(first, name, None), getattr(second, name, None)) for name in names)
    if isinstance(first, list):
        return len(first) == len(second) and all(map(is_same, first, second))
    return type(first) is type(second) and bool(first == second)


def find_free_names(node: ast.AST) -> set[str]:
    """Returns the free names of an expression, without those bound by its comprehensions and lambdas."""
    match node:
        case ast.Name(name, ast.Load()):
            return {name}
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            first = node.generators[0].iter  # read outside of the comprehension
            targets = list_nodes(*(part.target for part in node.generators))
            bound_names = {child.id for child in targets if isinstance(child, ast.Name)}
            return (_find_free_in_children(node) - bound_names) | find_free_names(first)
        case ast.Lambda(args, body):
            bound_names = {child.arg for child in list_nodes(args) if isinstance(child, ast.arg)}
            return (find_free_names(body) - bound_names) | _find_free_in_children(args)
    return _find_free_in_children(node)


def _find_free_in_children(node: ast.AST) -> set[str]:
    return {name for child in ast.iter_child_nodes(node) for name in find_free_names(child)}

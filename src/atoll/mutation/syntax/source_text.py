"""Source text with offsets of its syntax nodes, so that an edit leaves all other bytes unchanged."""

import ast
import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

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

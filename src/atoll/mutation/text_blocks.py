"""Fences, EVOLVE-BLOCK markers, cut texts and one-line summaries of changes."""

import re
from collections.abc import Sequence

from atoll import function


def fence(text: str, language: str = "") -> str:
    """Returns a text as a fenced block. The fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    delimiter = "`" * max(3, longest + 1)
    return f"{delimiter}{language}\n{text.rstrip('\n')}\n{delimiter}"


TUNED_SUFFIX = " (constants tuned)"  # of the idea of a tuned program
START_MARKER, END_MARKER = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"


def is_marker_line(line: str) -> bool:
    return START_MARKER in line or END_MARKER in line


def find_evolving_spans(text: str) -> Sequence[tuple[int, int]]:
    """Returns the line ranges between markers as (first, end), counted from 0; without markers, all lines."""
    lines = text.split("\n")
    return find_evolve_blocks(lines) or [(0, len(lines))]


def find_evolve_blocks(lines: Sequence[str]) -> Sequence[tuple[int, int]]:
    """Returns the lines between each START and the next END.

    It reads the lines once: searching from each START would take minutes for many STARTs without an END.
    """
    blocks, first = list[tuple[int, int]](), 0
    for index, line in enumerate(lines):
        if not first and START_MARKER in line:
            first = index + 1
        elif first and END_MARKER in line:
            blocks.append((first, index))
            first = 0
    return blocks


def hide_markers(text: str) -> str:
    """Returns a program without marker lines."""
    lines = text.split("\n")
    if not find_evolve_blocks(lines):
        return text
    return "\n".join(line for line in lines if not is_marker_line(line)).strip("\n") + "\n"


_DEFINITION = re.compile(
    r"(?P<indent>[ \t]*)(?:(?:[a-z]+ )*(?:def|class|fn|function) +(?P<name>\w+)|(?P<r_name>[\w.]+) *<- *function)"
)
_CONSTANT = re.compile(r"(?P<indent>[ \t]*)(?:(?:pub|const|static|let|var) )*(?P<name>[A-Za-z_]\w*) *(?::[^=]+)?=[^=]")
_MAX_LISTED_CONSTANTS = 3


def describe_editable_part(text: str) -> str:
    """Returns the names that the EVOLVE-BLOCKs of a program define, or their first and last lines.

    Empty without markers, and if only comments, imports and a docstring are outside of the blocks.
    """
    lines = text.split("\n")
    blocks = find_evolve_blocks(lines)
    inside = {index for first, end in blocks for index in range(first, end)}
    outside = "\n".join(line for i, line in enumerate(lines) if i not in inside and not is_marker_line(line))
    if not blocks or not _has_code(outside):
        return ""
    return ", ".join(filter(None, (_describe_block(lines[first:end]) for first, end in blocks)))


def _describe_block(lines: Sequence[str]) -> str:
    definitions = [match for match in map(_DEFINITION.match, lines) if match]
    if not definitions:
        texts = [line.strip()[:_MAX_LINE_LENGTH] for line in lines if line.strip()]
        return f"the lines from `{texts[0]}` to `{texts[-1]}`" if texts else ""
    indent = min((match["indent"] for match in definitions), key=len)
    names = [match["name"] or match["r_name"] for match in definitions if match["indent"] == indent]
    constants = [match["name"] for match in map(_CONSTANT.match, lines) if match and match["indent"] == indent]
    is_long = len(constants) > _MAX_LISTED_CONSTANTS
    listed = ", ".join(f"`{name}`" for name in dict.fromkeys(names if is_long else [*names, *constants]))
    return f"{listed} and the constants from `{constants[0]}` to `{constants[-1]}`" if is_long else listed


_PASSIVE_LINE = re.compile(r"\s*(?:#|//|import\b|from\b|use\b|library\(|$)")


def _has_code(text: str) -> bool:
    """Returns whether a text has lines besides comments, imports and a leading docstring."""
    without_docstring = re.sub(r"\A\s*(\"{3}|'{3}).*?\1", "", text, flags=re.S)
    return any(not _PASSIVE_LINE.match(line) for line in without_docstring.splitlines())


CUT_MARKER = "\n[... cut ...]\n"


def cut_middle(text: str, max_size: int) -> str:
    """Shortens a long text to its beginning and end. The end of an error message is its most useful part."""
    if len(text) <= max_size:
        return text
    half = (max_size - len(CUT_MARKER)) // 2
    return text[:half] + CUT_MARKER + text[-half:] if half > 0 else ""


_MAX_LINE_LENGTH, _MAX_LINES = 70, 2
_DOCSTRING = re.compile(r"^[ \t]*(\"{3}|'{3}).*?\1", re.M | re.S)


def summarize_change(parent: str, child: str) -> str:
    """Returns the number of removed and added lines, and two of each. Moved lines do not count."""
    removed, added = _find_missing(parent, child), _find_missing(child, parent)
    lines = [*(f"- {line}" for line in removed[:_MAX_LINES]), *(f"+ {line}" for line in added[:_MAX_LINES])]
    return "\n".join([f"{len(removed)} lines removed, {len(added)} added", *lines])


def _find_missing(text: str, other_text: str) -> Sequence[str]:
    """Returns the lines that the other text does not have, statements before comments, imports and docstrings."""
    other_lines = set(other_text.split("\n"))
    statements = _DOCSTRING.sub(lambda match: "\n" * match[0].count("\n"), text).split("\n")
    missing = [
        (bool(_PASSIVE_LINE.match(statement)), line.strip()[:_MAX_LINE_LENGTH])
        for line, statement in zip(text.split("\n"), statements, strict=True)
        if line not in other_lines and line.strip()
    ]
    return [line for _, line in sorted(missing, key=lambda item: item[0])]


def with_text(parent: function.Function, text: str) -> function.AnySkeleton:
    """Returns a copy of the parent's skeleton with a new text."""
    skeleton = parent.skeleton()
    if isinstance(skeleton, function.Rewritable):
        return skeleton.with_text(text)
    new_skeleton: function.AnySkeleton = type(skeleton)(text)  # type: ignore[call-arg]  # takes only its text
    return new_skeleton


class NotApplicable(ValueError):
    """The mutator cannot change these parents. Another mutator may take the iteration."""

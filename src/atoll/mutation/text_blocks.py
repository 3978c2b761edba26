"""Fenced blocks, EVOLVE-BLOCK markers, cut texts and one-line summaries of changes."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from atoll import function

_OPENING = re.compile(r"(?P<indent>[ \t]*+)(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<label>[^\s`]*+)[^`]*+")
_ALIASES: Mapping[str, Sequence[str]] = {
    "python": ("python", "py", "python3"),
    "javascript": ("javascript", "js"),
    "typescript": ("typescript", "ts"),
    "rust": ("rust", "rs"),
    "c++": ("c++", "cpp", "cxx"),
    "shell": ("shell", "sh", "bash"),
}


class FencedBlock(NamedTuple):
    """Text between two fences, and the label of the first."""

    label: str
    text: str


def fence(text: str, language: str = "") -> str:
    """Returns a text as a fenced block. The fence is longer than any run of backticks in the text."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    delimiter = "`" * max(3, longest + 1)
    return f"{delimiter}{language}\n{text.rstrip('\n')}\n{delimiter}"


def extract_code(response: str, language: str = "python") -> str | None:
    """Returns the first block in a language, else the first block in any, else None.

    Accepts fences of backticks or tildes, indented fences, Windows line ends and a missing last fence.
    """
    blocks = [block for block in _iter_fenced_blocks(response) if block.text.strip()]
    labels = _ALIASES.get(language.lower(), (language.lower(),))
    matching_blocks = [block for block in blocks if block.label.lower().strip("{}.") in labels]
    for block in matching_blocks or blocks:
        return block.text
    return None


def _iter_fenced_blocks(response: str) -> Iterator[FencedBlock]:
    lines = iter(re.split(r"\r\n|\r|\n", response))
    for line in lines:
        opening = _OPENING.fullmatch(line)
        if opening is None:
            continue
        indent, delimiter = opening["indent"], opening["fence"]
        body: list[str] = []
        for body_line in lines:
            stripped = body_line.strip()
            if len(stripped) >= len(delimiter) and set(stripped) == {delimiter[0]}:
                break
            body.append(_unindent(body_line, indent))
        yield FencedBlock(opening["label"], "\n".join(body).rstrip() + "\n")


def _unindent(line: str, indent: str) -> str:
    """Removes at most the indentation of the fence: a list item indents its whole block."""
    count = 0
    while count < len(indent) and line[count : count + 1] in (" ", "\t"):
        count += 1
    return line[count:]


_START, _END = "EVOLVE-BLOCK-START", "EVOLVE-BLOCK-END"


def splice(parent: str, child: str) -> str:
    """Returns the parent with the EVOLVE-BLOCKs of the child; the child if the parent has no markers.

    Raises:
        ValueError: The child and the parent have different numbers of blocks.
    """
    old_lines, new_lines = parent.split("\n"), child.split("\n")
    old, new = _find_evolve_blocks(old_lines), _find_evolve_blocks(new_lines)
    if not old:
        return child
    if len(new) != len(old):
        raise ValueError(f"The response has {len(new)} EVOLVE-BLOCKs, the program has {len(old)}. Keep all markers.")
    lines, position = list[str](), 0
    for (first, end), (new_first, new_end) in zip(old, new, strict=True):
        lines += [*old_lines[position:first], *new_lines[new_first:new_end]]
        position = end
    return "\n".join([*lines, *old_lines[position:]])


def find_evolving_spans(text: str) -> Sequence[tuple[int, int]]:
    """Returns the line ranges between markers as (first, end), counted from 0; without markers, all lines."""
    lines = text.split("\n")
    return _find_evolve_blocks(lines) or [(0, len(lines))]


def _find_evolve_blocks(lines: Sequence[str]) -> Sequence[tuple[int, int]]:
    """Returns the lines between each START and the next END.

    It reads the lines once: searching from each START would take minutes for many STARTs without an END.
    """
    blocks, first = list[tuple[int, int]](), 0
    for index, line in enumerate(lines):
        if not first and _START in line:
            first = index + 1
        elif first and _END in line:
            blocks.append((first, index))
            first = 0
    return blocks


CUT_MARKER = "\n[... cut ...]\n"


def cut_middle(text: str, max_size: int) -> str:
    """Shortens a long text to its beginning and end. The end of an error message is its most useful part."""
    if len(text) <= max_size:
        return text
    half = (max_size - len(CUT_MARKER)) // 2
    return text[:half] + CUT_MARKER + text[-half:] if half > 0 else ""


_MAX_LINE_LENGTH, _MAX_LINES = 70, 2


def summarize_change(parent: str, child: str) -> str:
    """Returns the number of removed and added lines, and the first of each. Moved lines do not count."""
    old, new = parent.splitlines(), child.splitlines()
    removed, added = _find_missing(old, set(new)), _find_missing(new, set(old))
    lines = [*(f"- {line}" for line in removed[:_MAX_LINES]), *(f"+ {line}" for line in added[:_MAX_LINES])]
    return "\n".join([f"{len(removed)} lines removed, {len(added)} added", *lines])


def _find_missing(lines: Sequence[str], other_lines: set[str]) -> Sequence[str]:
    return [line.strip()[:_MAX_LINE_LENGTH] for line in lines if line not in other_lines and line.strip()]


def with_text(parent: function.Function, text: str) -> function.AnySkeleton:
    """Returns a copy of the parent's skeleton with a new text."""
    skeleton = parent.skeleton()
    if isinstance(skeleton, function.Rewritable):
        return skeleton.with_text(text)
    new_skeleton: function.AnySkeleton = type(skeleton)(text)  # type: ignore[call-arg]  # takes only its text
    return new_skeleton


class NotApplicable(ValueError):
    """The mutator cannot change these parents. Another mutator may take the iteration."""

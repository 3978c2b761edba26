"""Fenced blocks: how programs stand in prompts and in replies."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

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
    """What stands between two fences, and the label of the first."""

    label: str
    text: str


def fence(text: str, language: str = "") -> str:
    """Returns a text as a fenced block; the fence is longer than any run of backticks in it, so it cannot end early."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    delimiter = "`" * max(3, longest + 1)
    return f"{delimiter}{language}\n{text.rstrip('\n')}\n{delimiter}"


def extract_code(response: str, language: str = "python") -> str | None:
    """Returns the first block of a language, else the first block of any, else None: a reply without one is no program.

    Takes fences of backticks or tildes, indented ones, Windows line ends, and a last fence that is missing.
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
    """Takes away the white space that stands before the fence, never more: a list item indents its whole block."""
    count = 0
    while count < len(indent) and line[count : count + 1] in (" ", "\t"):
        count += 1
    return line[count:]

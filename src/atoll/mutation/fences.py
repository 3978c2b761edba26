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


class Block(NamedTuple):
    """What stands between two fences, and the label of the first."""

    label: str
    text: str


def fenced(text: str, language: str = "") -> str:
    """Returns a text as a fenced block; the fence is longer than any run of backticks in it, so it cannot end early."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text.rstrip('\n')}\n{fence}"


def fenced_code(reply: str, language: str = "python") -> str | None:
    """Returns the first block of a language, else the first block of any, else None: a reply without one is no program.

    Takes fences of backticks or tildes, indented ones, Windows line ends, and a last fence that is missing.
    """
    found = [block for block in _blocks(reply) if block.text.strip()]
    wanted = _ALIASES.get(language.lower(), (language.lower(),))
    of_language = [block for block in found if block.label.lower().strip("{}.") in wanted]
    for block in of_language or found:
        return block.text
    return None


def _blocks(reply: str) -> Iterator[Block]:
    lines = iter(re.split(r"\r\n|\r|\n", reply))
    for line in lines:
        opening = _OPENING.fullmatch(line)
        if opening is None:
            continue
        indent, fence = opening["indent"], opening["fence"]
        body: list[str] = []
        for inner in lines:
            mark = inner.strip()
            if len(mark) >= len(fence) and set(mark) == {fence[0]}:
                break
            body.append(_unindented(inner, indent))
        yield Block(opening["label"], "\n".join(body).rstrip() + "\n")


def _unindented(line: str, indent: str) -> str:
    """Takes away the white space that stands before the fence, never more: a list item indents its whole block."""
    shared = 0
    while shared < len(indent) and line[shared : shared + 1] in (" ", "\t"):
        shared += 1
    return line[shared:]

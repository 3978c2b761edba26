"""SEARCH/REPLACE blocks: how a model changes a part of a program without writing it again."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll.mutation.markers import evolving, spliced

type Reads = Callable[[str], Sequence["Block"]]

_SEARCH, _MIDDLE, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
_SHOWN = 60  # characters of a line in a name


class Block(NamedTuple):
    """What is to be found, and what is to stand there instead; both in whole lines."""

    search: str
    replace: str


class Span(NamedTuple):
    """Lines of a text, and by how much they are indented further than what was searched."""

    first: int
    end: int
    shift: str = ""
    is_outdented: bool = False


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after its blocks.

    Attributes:
        text: With all blocks that could be applied.
        num_applied: How many could.
        problems: Why the others could not, each with the block's number and first line.
    """

    text: str
    num_applied: int
    problems: Sequence[str]


def blocks_of(reply: str) -> Sequence[Block]:
    """Returns the SEARCH/REPLACE blocks of a reply, in their order.

    Longer or shorter rows of `<`, `=` and `>` count, from five on, and so do indented ones; a block that does not end
    is none. Nothing here goes back over the text, however the reply is made.
    """
    found, part, parts = list[Block](), "", {"search": list[str](), "replace": list[str]()}
    for line in re.split(r"\r\n|\r|\n", reply):
        kind = _kind(line)
        if kind == "search":
            part, parts = "search", {"search": [], "replace": []}
        elif kind == "middle" and part == "search":
            part = "replace"
        elif kind == "end" and part == "replace":
            found.append(Block(*(_joined(parts[name]) for name in ("search", "replace"))))
            part = ""
        elif part:
            parts[part].append(line)
    return found


def _joined(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _kind(line: str) -> str:
    """Says which delimiter a line is, if any."""
    words = line.strip()
    row, rest = words[: len(words) - len(words.lstrip("<=>"))], words.lstrip("<=>").strip().upper()
    if len(row) < 5 or len(set(row)) > 1:
        return ""
    return {("<", "SEARCH"): "search", ("=", ""): "middle", (">", "REPLACE"): "end"}.get((row[0], rest), "")


def edited(text: str, blocks: Sequence[Block]) -> Edited:
    """Applies blocks one after the other; what stands outside of EVOLVE-BLOCK markers stays as it is.

    Lines are looked for exactly, then without regard to white space at their ends, then indented otherwise, all by
    the same: the replacement is then indented like what it replaces. What stands in several places is not applied:
    which one was meant is a guess.

    Raises:
        ValueError: A replacement would add or take away a marker.
    """
    now, problems = text, list[str]()
    for number, block in enumerate(blocks, 1):
        lines = _lines(now)
        found = _place(lines, block.search)
        if isinstance(found, str):
            problems.append(f"block {number} ({_first_line(block.search)}): {found}")
        else:
            now = _replaced(lines, found, block.replace)
    return Edited(spliced(text, now), len(blocks) - len(problems), problems)


def _lines(text: str) -> Sequence[str]:
    """Returns the lines with their ends; a form feed ends none."""
    *whole, rest = text.split("\n")
    return [*(f"{line}\n" for line in whole), *([rest] if rest else [])]


def _first_line(search: str) -> str:
    line = next((line.strip() for line in search.splitlines() if line.strip()), "")
    return f"{line[:_SHOWN]} ..." if len(line) > _SHOWN else line or "empty"


def _place(lines: Sequence[str], search: str) -> Span | str:
    """Returns the only place of a text that may change, or why there is none."""
    wanted = [line.rstrip("\r\n") for line in _lines(search)]
    if not search.strip():
        return "its SEARCH part is empty"
    inside = evolving("".join(lines))
    for matches in (_exact, _trimmed, _shifted):
        spans = list(matches(lines, wanted))
        allowed = [span for span in spans if any(span.first < end and first < span.end for first, end in inside)]
        if len(allowed) == 1:
            return allowed[0]
        if allowed:
            places = ", ".join(str(span.first + 1) for span in allowed[:5])
            return f"its SEARCH part stands in {len(allowed)} places, at lines {places}: search for more lines"
        if spans:
            return "its SEARCH part stands outside of the EVOLVE-BLOCK markers, where nothing may change"
    return "its SEARCH part stands nowhere in the program"


def _exact(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[Span]:
    return _matching([line.rstrip("\r\n") for line in lines], wanted)


def _trimmed(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[Span]:
    return _matching([line.rstrip() for line in lines], _without_blank_ends([line.rstrip() for line in wanted]))


def _shifted(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[Span]:
    """Finds lines that are all indented by the same more, or less, than those that are wanted."""
    wanted = _without_blank_ends([line.rstrip() for line in wanted])
    bare, trimmed = [line.strip() for line in lines], [line.rstrip() for line in lines]
    for span in _matching(bare, [line.strip() for line in wanted]):
        for is_outdented in (False, True):
            here = trimmed[span.first : span.end]
            longer, shorter = (wanted, here) if is_outdented else (here, wanted)
            shift = longer[0][: len(longer[0]) - len(shorter[0])]
            if not shift.strip() and all(not far or far == shift + near for far, near in zip(longer, shorter)):  # noqa: B905
                yield Span(span.first, span.end, shift, is_outdented)
                break


def _without_blank_ends(lines: Sequence[str]) -> Sequence[str]:
    kept = [number for number, line in enumerate(lines) if line.strip()]
    return lines[kept[0] : kept[-1] + 1]


def _matching(lines: Sequence[str], wanted: Sequence[str]) -> Iterator[Span]:
    for first in range(len(lines) - len(wanted) + 1):
        if lines[first] == wanted[0] and list(lines[first : first + len(wanted)]) == list(wanted):
            yield Span(first, first + len(wanted))


def _replaced(lines: Sequence[str], span: Span, replacement: str) -> str:
    new = [_indented(line, span) for line in _lines(replacement)]
    if new and not new[-1].endswith("\n"):
        new[-1] += "\n"
    return "".join([*lines[: span.first], *new, *lines[span.end :]])


def _indented(line: str, span: Span) -> str:
    if span.is_outdented:
        return line.removeprefix(span.shift)
    return span.shift + line if line.strip() else line

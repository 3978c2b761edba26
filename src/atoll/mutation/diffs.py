"""SEARCH/REPLACE blocks, with which an LLM changes parts of a program, and custom patterns for them."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll import errors
from atoll.mutation.text_blocks import find_evolving_spans, splice

type DiffParser = Callable[[str], Sequence["DiffBlock"]]

_SEARCH, _MIDDLE, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
_MAX_SHOWN = 60  # characters of a line in a message


class DiffBlock(NamedTuple):
    """Lines to find and lines to put in their place."""

    search: str
    replace: str


class Span(NamedTuple):
    """Lines of a text, and their indentation relative to the SEARCH lines."""

    first: int
    end: int
    shift: str = ""
    is_outdented: bool = False


@dataclass(frozen=True, slots=True)
class EditResult:
    """Result of applying blocks to a text.

    Attributes:
        text: The text with all applicable blocks applied.
        num_applied: Number of applied blocks.
        problems: A reason for each other block, with its number and first line.
    """

    text: str
    num_applied: int
    problems: Sequence[str]


def parse_blocks(response: str) -> Sequence[DiffBlock]:
    """Returns the SEARCH/REPLACE blocks of a response, in order.

    Delimiters need at least five of `<`, `=` or `>` and may be indented. A block without an end is ignored. The text
    is read once, so that no response can make this slow.
    """
    blocks, part, parts = list[DiffBlock](), "", {"search": list[str](), "replace": list[str]()}
    for line in re.split(r"\r\n|\r|\n", response):
        kind = _classify_line(line)
        if kind == "search":
            part, parts = "search", {"search": [], "replace": []}
        elif kind == "middle" and part == "search":
            part = "replace"
        elif kind == "end" and part == "replace":
            blocks.append(DiffBlock(*(_join_lines(parts[name]) for name in ("search", "replace"))))
            part = ""
        elif part:
            parts[part].append(line)
    return blocks


def _join_lines(lines: Sequence[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _classify_line(line: str) -> str:
    """Returns the kind of a delimiter line; empty for other lines."""
    stripped = line.strip()
    delimiter, label = stripped[: len(stripped) - len(stripped.lstrip("<=>"))], stripped.lstrip("<=>").strip().upper()
    if len(delimiter) < 5 or len(set(delimiter)) > 1:
        return ""
    return {("<", "SEARCH"): "search", ("=", ""): "middle", (">", "REPLACE"): "end"}.get((delimiter[0], label), "")


def apply_blocks(text: str, blocks: Sequence[DiffBlock]) -> EditResult:
    """Applies blocks in order. Text outside of EVOLVE-BLOCK markers does not change.

    The search tries exact lines, then lines without trailing white space, then lines with another common indentation.
    In the last case the replacement gets the same indentation. A block that matches several places is not applied.

    Raises:
        ValueError: A replacement would add or remove a marker.
    """
    current, problems = text, list[str]()
    for block_number, block in enumerate(blocks, 1):
        lines = _split_lines(current)
        match = _find_span(lines, block.search)
        if isinstance(match, str):
            problems.append(f"block {block_number} ({_format_first_line(block.search)}): {match}")
        else:
            current = _replace_span(lines, match, block.replace)
    return EditResult(splice(text, current), len(blocks) - len(problems), problems)


def _split_lines(text: str) -> Sequence[str]:
    """Returns the lines with their line ends. Unlike `splitlines`, a form feed does not end a line."""
    *complete_lines, last_line = text.split("\n")
    return [*(f"{line}\n" for line in complete_lines), *([last_line] if last_line else [])]


def _format_first_line(search: str) -> str:
    line = next((line.strip() for line in search.splitlines() if line.strip()), "")
    return f"{line[:_MAX_SHOWN]} ..." if len(line) > _MAX_SHOWN else line or "empty"


def _find_span(lines: Sequence[str], search: str) -> Span | str:
    """Returns the only match that may change, or the problem."""
    search_lines = [line.rstrip("\r\n") for line in _split_lines(search)]
    if not search.strip():
        return "its SEARCH block is empty"
    evolving_spans = find_evolving_spans("".join(lines))
    for matcher in (_match_exact, _match_trimmed, _match_shifted):
        spans = list(matcher(lines, search_lines))
        allowed = [
            span for span in spans if any(span.first < end and start < span.end for start, end in evolving_spans)
        ]
        if len(allowed) == 1:
            return allowed[0]
        if allowed:
            line_numbers = ", ".join(str(span.first + 1) for span in allowed[:5])
            return f"its SEARCH block matches {len(allowed)} places, at lines {line_numbers}; add more lines"
        if spans:
            return "its SEARCH block is outside of the EVOLVE-BLOCK markers, where nothing may change"
    return "its SEARCH block is not in the program"


def _match_exact(lines: Sequence[str], search_lines: Sequence[str]) -> Iterator[Span]:
    return _find_matches([line.rstrip("\r\n") for line in lines], search_lines)


def _match_trimmed(lines: Sequence[str], search_lines: Sequence[str]) -> Iterator[Span]:
    return _find_matches([line.rstrip() for line in lines], _strip_blank_ends([line.rstrip() for line in search_lines]))


def _match_shifted(lines: Sequence[str], search_lines: Sequence[str]) -> Iterator[Span]:
    """Finds lines whose indentation differs from the SEARCH lines by the same amount everywhere."""
    search_lines = _strip_blank_ends([line.rstrip() for line in search_lines])
    stripped, trimmed = [line.strip() for line in lines], [line.rstrip() for line in lines]
    for span in _find_matches(stripped, [line.strip() for line in search_lines]):
        for is_outdented in (False, True):
            matched_lines = trimmed[span.first : span.end]
            longer, shorter = (search_lines, matched_lines) if is_outdented else (matched_lines, search_lines)
            shift = longer[0][: len(longer[0]) - len(shorter[0])]
            pairs = zip(longer, shorter, strict=True)
            if not shift.strip() and all(not line or line == shift + other for line, other in pairs):
                yield Span(span.first, span.end, shift, is_outdented)
                break


def _strip_blank_ends(lines: Sequence[str]) -> Sequence[str]:
    nonblank = [index for index, line in enumerate(lines) if line.strip()]
    return lines[nonblank[0] : nonblank[-1] + 1]


def _find_matches(lines: Sequence[str], search_lines: Sequence[str]) -> Iterator[Span]:
    for first in range(len(lines) - len(search_lines) + 1):
        if lines[first] == search_lines[0] and list(lines[first : first + len(search_lines)]) == list(search_lines):
            yield Span(first, first + len(search_lines))


def _replace_span(lines: Sequence[str], span: Span, replacement: str) -> str:
    new_lines = [_reindent(line, span) for line in _split_lines(replacement)]
    if new_lines and not new_lines[-1].endswith("\n"):
        new_lines[-1] += "\n"
    return "".join([*lines[: span.first], *new_lines, *lines[span.end :]])


def _reindent(line: str, span: Span) -> str:
    if span.is_outdented:
        return line.removeprefix(span.shift)
    return span.shift + line if line.strip() else line


DEFAULT_PATTERN = r"<<<<<<< SEARCH\n(.*?)=======\n(.*?)>>>>>>> REPLACE"  # OpenEvolve's default

_GAP = "(.*?)"
_MAX_RESPONSE_LENGTH = 200_000
_MAX_REPEATS, _MAX_REPEAT_COUNT = 3, 16  # in a delimiter: at most a few thousand ways to match at one position
_REPEAT = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(?P<repeat>[*+]|\{(?:\d+(?:,\d*)?|,\d+)\})", re.S)
_UNSAFE = re.compile(r"(?<!\\)[()|]|\\[1-9]")


def make_diff_parser(pattern: str) -> DiffParser:
    """Returns a parser for the blocks of a response, made from a pattern.

    Raises:
        SetupError: The pattern does not have three delimiters, or could take very long to match.
    """
    if pattern == DEFAULT_PATTERN:
        return parse_blocks
    parts = pattern.split(_GAP)
    if len(parts) != 3 or not all(parts):
        raise errors.SetupError(f"The diff pattern {pattern[:80]!r} is invalid. Write START(.*?)MIDDLE(.*?)END.")
    delimiters = [_compile_delimiter(part) for part in parts]
    return lambda response: list(_find_blocks(response[:_MAX_RESPONSE_LENGTH], delimiters))


def _compile_delimiter(part: str) -> re.Pattern[str]:
    repeats = [match for match in _REPEAT.finditer(part) if match["repeat"]]
    if _UNSAFE.search(part) or len(repeats) > _MAX_REPEATS:
        raise errors.SetupError(
            f"The delimiter {part[:80]!r} of the diff pattern could take very long to match. Use no groups, no "
            f"alternatives and at most {_MAX_REPEATS} repeats."
        )
    try:
        return re.compile(_REPEAT.sub(_bound_repeat, part), re.S)
    except (re.error, OverflowError) as error:
        raise errors.SetupError(f"The delimiter {part[:80]!r} of the diff pattern is not valid: {error}.") from error


def _bound_repeat(match: re.Match[str]) -> str:
    """Limits a repeat; returns other parts of the expression unchanged."""
    repeat = match["repeat"]
    if not repeat:
        return match[0]
    low, _, high = {"*": "0,", "+": "1,"}.get(repeat, repeat.strip("{}")).partition(",")
    if repeat[0] == "{" and "," not in repeat:
        high = low
    minimum = min(int(low or 0), _MAX_REPEAT_COUNT)
    return f"{{{minimum},{min(int(high or _MAX_REPEAT_COUNT), _MAX_REPEAT_COUNT)}}}"


def _find_blocks(response: str, delimiters: Sequence[re.Pattern[str]]) -> Sequence[DiffBlock]:
    blocks, end = list[DiffBlock](), 0
    while True:
        matches = list[re.Match[str]]()
        for delimiter in delimiters:
            match = delimiter.search(response, matches[-1].end() if matches else end)
            if match is None:
                return blocks
            matches.append(match)
        first, middle, last = matches
        blocks.append(DiffBlock(response[first.end() : middle.start()], response[middle.end() : last.start()]))
        end = max(last.end(), end + 1)

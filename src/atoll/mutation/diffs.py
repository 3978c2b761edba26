"""SEARCH/REPLACE blocks, with which an LLM changes parts of a program, and custom patterns for them."""

import difflib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll import errors
from atoll.mutation.text_blocks import find_evolving_spans, is_marker_line

type DiffParser = Callable[[str], Sequence["DiffBlock"]]

_SEARCH, _MIDDLE, _REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
_MAX_SHOWN = 60  # characters of a line in a message
_MAX_BLOCKS = 200  # of a response


class DiffBlock(NamedTuple):
    """Lines to find and lines to put in their place."""

    search: str
    replace: str


@dataclass(frozen=True, slots=True)
class EditResult:
    """Result of applying blocks to a text.

    Attributes:
        text: The text with all applicable blocks applied.
        num_applied: Number of applied blocks.
        problems: A reason for each other block, with its number, its first line and the nearest lines of the text.
        notes: Guesses, such as a match that ignores white space.
    """

    text: str
    num_applied: int
    problems: Sequence[str]
    notes: Sequence[str] = ()


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


def _join_lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _classify_line(line: str) -> str:
    """Returns the kind of a delimiter line; empty for other lines."""
    stripped = line.strip()
    delimiter, label = stripped[: len(stripped) - len(stripped.lstrip("<=>"))], stripped.lstrip("<=>").strip().upper()
    if len(delimiter) < 5 or len(set(delimiter)) > 1:
        return ""
    return {("<", "SEARCH"): "search", ("=", ""): "middle", (">", "REPLACE"): "end"}.get((delimiter[0], label), "")


_HEADING = re.compile(r"[#*_\s]*+(?:\d+[.)]\s*+)?(SEARCH|REPLACE)(?:\s++(?:WITH|BLOCK|PART))?\s*+[:*_]*+\s*+", re.I)
_TAG = re.compile(r"\s*</?(search|replace)>\s*", re.I)


def parse_loose_blocks(response: str) -> Sequence[DiffBlock]:
    """Returns edits in other forms: headings SEARCH and REPLACE over fenced blocks, tag pairs, unified diffs."""
    blocks, part, parts = list[DiffBlock](), "", dict[str, list[str]]()
    lines = response.split("\n")
    is_fenced = False
    for line in [*lines, "### SEARCH"]:  # the heading ends the last block
        if tag := _TAG.fullmatch(line):
            name, is_closing = tag[1].lower(), "</" in line
            part, is_fenced = ("" if is_closing else name), not is_closing
            if not is_closing:
                parts[name] = []
        elif heading := None if is_fenced else _HEADING.fullmatch(line):
            part = heading[1].lower()
            if part == "search" and parts.get("search") and "replace" in parts:
                blocks.append(DiffBlock(_join_lines(parts["search"]), _join_lines(parts["replace"])))
                parts = {}
            parts[part] = []
        elif line.lstrip().startswith("```") and part:
            is_fenced = not is_fenced
            part = part if is_fenced else ""
        elif part and is_fenced:
            parts[part].append(line)
        if "search" in parts and parts.get("replace") and not part and parts["search"]:
            blocks.append(DiffBlock(_join_lines(parts["search"]), _join_lines(parts["replace"])))
            parts = {}
    return blocks or _parse_unified_diff(lines)


def _parse_unified_diff(lines: Sequence[str]) -> Sequence[DiffBlock]:
    """Returns the hunks of a unified diff as blocks; line numbers are ignored."""
    blocks, hunk = list[DiffBlock](), list[str]()
    is_inside = False
    for line in [*lines, "```"]:
        if line.startswith(("@@", "```", "--- ", "+++ ", "diff --git")):
            if any(row[:1] in "+-" for row in hunk if row):
                old, new = ([row[1:] for row in hunk if row[:1] != sign] for sign in "+-")
                blocks.append(DiffBlock(_join_lines(old), _join_lines(new)))
            hunk = []
            is_inside = line.startswith("@@") or (is_inside and not line.startswith("```"))
        elif is_inside:
            hunk.append(line if line else " ")
    return [block for block in blocks if block.search.strip()]


def apply_blocks(text: str, blocks: Sequence[DiffBlock]) -> EditResult:
    """Applies blocks in order, where the SEARCH lines overlap the lines between EVOLVE-BLOCK markers.

    The search tries exact lines, then ignores trailing white space, indentation, blank lines, spacing and quotes, and
    at last takes the most similar lines if they are nearly equal and no others come close. Of several exact matches
    it takes the first after the previous edit. The replacement gets the indentation of the lines it replaces.
    """
    current, position, compared_chars = text, 0, 0
    problems, notes = list[str](), list[str]()
    for block_number, block in enumerate(blocks, 1):
        lines = current.split("\n")
        match = _find_match(lines, block, position) if block_number <= _MAX_BLOCKS else f"only {_MAX_BLOCKS} are read"
        if match is None:
            compared_chars += len(block.search)
            can_compare = compared_chars <= _MAX_COMPARED_CHARS
            match = _find_similar(lines, block.search.split("\n")) if can_compare else _NOT_FOUND
        if isinstance(match, str):
            problems.append(f"block {block_number} ({_format_first_line(block.search)}): {match}")
            continue
        notes += [f"block {block_number}: {match.note}"] if match.note else []
        replacement = [_shift(line, match.shift) for line in block.replace.removesuffix("\n").split("\n")]
        replacement = [] if not block.replace.strip() else replacement
        current = "\n".join([*lines[: match.first], *replacement, *lines[match.end :]])
        position = match.first + len(replacement)
    return EditResult(current, len(blocks) - len(problems), problems, notes)


class _Match(NamedTuple):
    """Lines of a text, the change of indentation of the replacement, and a note if the match is a guess."""

    first: int
    end: int
    shift: int = 0
    note: str = ""


def _shift(line: str, shift: int) -> str:
    if not line.strip():
        return line
    return " " * shift + line if shift > 0 else line[min(-shift, len(line) - len(line.lstrip())) :]


def _format_first_line(search: str) -> str:
    line = next((line.strip() for line in search.splitlines() if line.strip()), "")
    return f"{line[:_MAX_SHOWN]} ..." if len(line) > _MAX_SHOWN else line or "empty"


class _Level(NamedTuple):
    normalize: Callable[[str], str]
    ignores_blank: bool
    note: str = ""


_TOKEN = re.compile(r"\w+|[^\w\s]")


def _normalize_tokens(line: str) -> str:
    code = line.split("#")[0] if line.count('"') + line.count("'") == 0 else line
    return " ".join(_TOKEN.findall(code)).replace("'", '"')


_LEVELS = (
    _Level(str, False),
    _Level(str.rstrip, False),
    _Level(str.strip, True, "white space differs"),
    _Level(_normalize_tokens, True, "spacing, quotes or comments differ"),
)


def _find_match(lines: Sequence[str], block: DiffBlock, position: int) -> _Match | str | None:
    """Returns the lines that a block replaces, or the problem; None if no lines are equal."""
    search_lines = block.search.removesuffix("\n").split("\n")
    if not block.search.strip():
        return _find_append_position(lines)
    spans = find_evolving_spans("\n".join(lines))
    for required in (search_lines, [line for line in search_lines if not is_marker_line(line)]):
        for level in _LEVELS if any(line.strip() for line in required) else ():
            matches = list(_find_matches(lines, required, level))
            allowed = [m for m in matches if any(m.first < end and first < m.end for first, end in spans)]
            if allowed and (len(allowed) == 1 or level.normalize in (str, str.rstrip)):
                match = next((match for match in allowed if match.first >= position), allowed[0])
                note = f"its SEARCH block matches {len(allowed)} places; the first one changed"
                return match._replace(note=note if len(allowed) > 1 else level.note)
            if allowed:
                numbers = ", ".join(str(match.first + 1) for match in allowed[:5])
                return f"its SEARCH block matches {len(allowed)} places, at lines {numbers}; add more lines"
            if matches:
                return "its SEARCH block is outside of the EVOLVE-BLOCK markers, where nothing may change"
    return None


def _find_append_position(lines: Sequence[str]) -> _Match:
    first, end = find_evolving_spans("\n".join(lines))[0]
    while end > first and not lines[end - 1].strip():
        end -= 1
    return _Match(end, end, 0, "its SEARCH block is empty; its lines were added")


def _find_matches(lines: Sequence[str], search_lines: Sequence[str], level: _Level) -> Iterator[_Match]:
    """Yields the places where the normalized SEARCH lines are."""
    numbered = [(index, level.normalize(line)) for index, line in enumerate(lines)]
    required = [level.normalize(line) for line in search_lines]
    if level.ignores_blank:
        numbered, required = [row for row in numbered if row[1]], [line for line in required if line]
    first_line = next((line for line in search_lines if level.normalize(line)), "")
    texts = [line for _, line in numbered]
    for start in range(len(texts) - len(required) + 1) if required else ():
        if texts[start] == required[0] and texts[start : start + len(required)] == required:
            first, end = numbered[start][0], numbered[start + len(required) - 1][0] + 1
            shift = _get_indent(lines[first]) - _get_indent(first_line) if level.ignores_blank else 0
            yield _Match(first, end, shift)


def _get_indent(line: str) -> int:
    return len(line) - len(line.lstrip())


_NOT_FOUND = "its SEARCH block is not in the program"
_MIN_SIMILARITY, _MIN_LEAD, _MIN_SHOWN_SIMILARITY = 0.92, 0.05, 0.6
_MAX_LINES_SHOWN, _MAX_COMPARED_LINES, _MAX_COMPARED_WINDOWS = 12, 1000, 10
_MAX_LIKELY_WINDOWS = 200  # whose characters are counted
_MAX_COMPARED_CHARS = 4000  # of all blocks of a response


def _find_similar(lines: Sequence[str], search_lines: Sequence[str]) -> _Match | str:
    """Returns the nearly equal lines, if no others come close; otherwise a message that quotes the nearest lines."""
    spans = find_evolving_spans("\n".join(lines))
    required = [line.strip() for line in search_lines if line.strip() and not is_marker_line(line)]
    editable = [i for first, end in spans for i in range(first, min(end, len(lines))) if lines[i].strip()]
    if not required or len(editable) > _MAX_COMPARED_LINES:
        return _NOT_FOUND
    scored = sorted(_score_windows([lines[i].strip() for i in editable], required), reverse=True)
    if not scored or scored[0][0] < _MIN_SHOWN_SIMILARITY:
        return _NOT_FOUND
    score, start, size = scored[0]
    first, end = editable[start], editable[start + size - 1] + 1
    others = [other for other, at, length in scored if at + length <= start or at >= start + size]
    if score >= _MIN_SIMILARITY and score - (others[0] if others else 0.0) >= _MIN_LEAD:
        first_line = next(line for line in search_lines if line.strip() and not is_marker_line(line))
        shift = _get_indent(lines[first]) - _get_indent(first_line)
        return _Match(first, end, shift, f"its SEARCH block is {score:.0%} similar to lines {first + 1} to {end}")
    excerpt = "\n".join(f"{i + 1}: {lines[i]}" for i in range(first, min(end, first + _MAX_LINES_SHOWN)))
    return f"{_NOT_FOUND}; the nearest lines are\n{excerpt}"


def _score_windows(lines: Sequence[str], required: Sequence[str]) -> Iterator[tuple[float, int, int]]:
    """Yields the similarity of the best windows with about as many lines, with start and size.

    Windows with few words of the required lines are left out first: comparing all of them would take seconds.
    """
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2("\n".join(required))
    margin = len(required) // 5
    required_words = set(_TOKEN.findall("\n".join(required)))
    words = [_TOKEN.findall(line) for line in lines]
    num_words = [0, *itertools.accumulate(len(row) for row in words)]
    num_shared = [0, *itertools.accumulate(sum(word in required_words for word in row) for row in words)]
    windows = list[tuple[float, int, int]]()
    for size in sorted(
        {len(required) + change for change in (-margin, -1, 0, 1, margin) if len(required) > 2 or not change}
    ):
        for start in range(len(lines) - size + 1):
            shared, total = (sums[start + size] - sums[start] for sums in (num_shared, num_words))
            windows.append((shared / max(total, 1), start, size))
    likely_windows = list[tuple[float, int, int]]()
    for _, start, size in sorted(windows, reverse=True)[:_MAX_LIKELY_WINDOWS]:
        matcher.set_seq1("\n".join(lines[start : start + size]))
        if matcher.real_quick_ratio() >= _MIN_SHOWN_SIMILARITY:
            likely_windows.append((matcher.quick_ratio(), start, size))
    for _, start, size in sorted(likely_windows, reverse=True)[:_MAX_COMPARED_WINDOWS]:
        matcher.set_seq1("\n".join(lines[start : start + size]))
        yield matcher.ratio(), start, size


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

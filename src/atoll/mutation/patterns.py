r"""A pattern of one's own for SEARCH/REPLACE blocks, as OpenEvolve's `diff_pattern`, kept harmless.

A regular expression can take for ever on a reply that was made for it, and nothing can interrupt it. So a pattern is
three delimiters around two `(.*?)`, each looked for once from where the last one ended: that finds what the whole
expression would find, in one walk through the reply.
"""

import re
from collections.abc import Sequence

from atoll import errors
from atoll.mutation.diffs import DiffBlock, DiffParser, parse_blocks

DEFAULT_PATTERN = r"<<<<<<< SEARCH\n(.*?)=======\n(.*?)>>>>>>> REPLACE"  # OpenEvolve's default

_GAP = "(.*?)"
_MAX_RESPONSE_LENGTH = 200_000
_MAX_REPEATS, _MAX_REPEAT_COUNT = 3, 16  # in a delimiter: a few thousand ways to match at one place, at worst
_REPEAT = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(?P<repeat>[*+]|\{(?:\d+(?:,\d*)?|,\d+)\})", re.S)
_UNSAFE = re.compile(r"(?<!\\)[()|]|\\[1-9]")


def make_diff_parser(pattern: str) -> DiffParser:
    """Returns what finds the blocks of a reply by a pattern.

    Raises:
        SetupError: It is no pattern of three delimiters, or one that could take for ever.
    """
    if pattern == DEFAULT_PATTERN:
        return parse_blocks
    parts = pattern.split(_GAP)
    if len(parts) != 3 or not all(parts):
        raise errors.SetupError(f"The diff pattern {pattern[:80]!r} is none: write START(.*?)MIDDLE(.*?)END.")
    delimiters = [_compile_delimiter(part) for part in parts]
    return lambda response: list(_find_blocks(response[:_MAX_RESPONSE_LENGTH], delimiters))


def _compile_delimiter(part: str) -> re.Pattern[str]:
    repeats = [match for match in _REPEAT.finditer(part) if match["repeat"]]
    if _UNSAFE.search(part) or len(repeats) > _MAX_REPEATS:
        raise errors.SetupError(
            f"The delimiter {part[:80]!r} of the diff pattern could take for ever: use no groups, no alternatives "
            f"and at most {_MAX_REPEATS} repeats in it."
        )
    try:
        return re.compile(_REPEAT.sub(_bound_repeat, part), re.S)
    except (re.error, OverflowError) as error:
        raise errors.SetupError(
            f"The delimiter {part[:80]!r} of the diff pattern is no expression: {error}."
        ) from error


def _bound_repeat(match: re.Match[str]) -> str:
    """Limits a repeat; what else the expression finds stays."""
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

r"""A pattern of one's own for SEARCH/REPLACE blocks, as OpenEvolve's `diff_pattern`, kept harmless.

A regular expression can take for ever on a reply that was made for it, and nothing can interrupt it. So a pattern is
three delimiters around two `(.*?)`, each looked for once from where the last one ended: that finds what the whole
expression would find, in one walk through the reply.
"""

import re
from collections.abc import Sequence

from atoll import errors
from atoll.mutation.diffs import Block, Reads, blocks_of

USUAL = r"<<<<<<< SEARCH\n(.*?)=======\n(.*?)>>>>>>> REPLACE"  # OpenEvolve's default

_GAP = "(.*?)"
_LONGEST_REPLY = 200_000
_MOST_REPEATS, _LONGEST_REPEAT = 3, 16  # in a delimiter: a few thousand ways to match at one place, at worst
_REPEAT = re.compile(r"\\.|\[(?:\\.|[^\]\\])*\]|(?P<repeat>[*+]|\{(?:\d+(?:,\d*)?|,\d+)\})", re.S)
_LOOSE = re.compile(r"(?<!\\)[()|]|\\[1-9]")


def reads(pattern: str) -> Reads:
    """Returns what finds the blocks of a reply by a pattern.

    Raises:
        SetupError: It is no pattern of three delimiters, or one that could take for ever.
    """
    if pattern == USUAL:
        return blocks_of
    parts = pattern.split(_GAP)
    if len(parts) != 3 or not all(parts):
        raise errors.SetupError(f"The diff pattern {pattern[:80]!r} is none: write START(.*?)MIDDLE(.*?)END.")
    delimiters = [_delimiter(part) for part in parts]
    return lambda reply: list(_blocks(reply[:_LONGEST_REPLY], delimiters))


def _delimiter(part: str) -> re.Pattern[str]:
    repeats = [found for found in _REPEAT.finditer(part) if found["repeat"]]
    if _LOOSE.search(part) or len(repeats) > _MOST_REPEATS:
        raise errors.SetupError(
            f"The delimiter {part[:80]!r} of the diff pattern could take for ever: use no groups, no alternatives "
            f"and at most {_MOST_REPEATS} repeats in it."
        )
    try:
        return re.compile(_REPEAT.sub(_bounded, part), re.S)
    except (re.error, OverflowError) as error:
        raise errors.SetupError(
            f"The delimiter {part[:80]!r} of the diff pattern is no expression: {error}."
        ) from error


def _bounded(found: re.Match[str]) -> str:
    """Limits a repeat; what else the expression finds stays."""
    repeat = found["repeat"]
    if not repeat:
        return found[0]
    low, _, high = {"*": "0,", "+": "1,"}.get(repeat, repeat.strip("{}")).partition(",")
    if repeat[0] == "{" and "," not in repeat:
        high = low
    least = min(int(low or 0), _LONGEST_REPEAT)
    return f"{{{least},{min(int(high or _LONGEST_REPEAT), _LONGEST_REPEAT)}}}"


def _blocks(reply: str, delimiters: Sequence[re.Pattern[str]]) -> Sequence[Block]:
    found, end = list[Block](), 0
    while True:
        places = list[re.Match[str]]()
        for delimiter in delimiters:
            place = delimiter.search(reply, places[-1].end() if places else end)
            if place is None:
                return found
            places.append(place)
        first, middle, last = places
        found.append(Block(reply[first.end() : middle.start()], reply[middle.end() : last.start()]))
        end = max(last.end(), end + 1)

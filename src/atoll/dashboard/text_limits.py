"""Safe response data: finite numbers, valid Unicode, limited lengths, and diffs in bounded time."""

import difflib
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any
from urllib.parse import quote

import pydantic
from pydantic import BaseModel

MAX_VALUE_CHARS = 100_000  # per text in a response
MAX_ITEMS = 20_000  # per list in a response
TRUNCATION_NOTE = "\n… cut here: {left:,} characters more"


def limit_text(value: str, max_chars: int = MAX_VALUE_CHARS) -> str:
    """Replaces invalid characters and truncates long texts with a note."""
    limited = (
        value if len(value) <= max_chars else value[:max_chars] + TRUNCATION_NOTE.format(left=len(value) - max_chars)
    )
    return limited.encode("utf-8", "replace").decode("utf-8")


def to_json_data(value: Any, max_chars: int = MAX_VALUE_CHARS) -> Any:
    """Converts a value to JSON data: non-finite numbers become null, other types become text."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str():
            return limit_text(value, max_chars)
        case Mapping():
            return {limit_text(str(name), 1000): to_json_data(item, max_chars) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json_data(item, max_chars) for item, _ in zip(value, range(MAX_ITEMS), strict=False)]
        case _:
            return limit_text(str(value), max_chars)


class RequestBody(pydantic.BaseModel):
    """Body of a request; unknown fields are rejected."""

    model_config = pydantic.ConfigDict(extra="forbid")


Reason = Annotated[str, pydantic.Field(min_length=1, max_length=2000, description="Why; required and stored.")]
AuthorName = Annotated[str, pydantic.Field(min_length=1, max_length=200, description="Name of the author or reviewer.")]


class AuthorAndReason(RequestBody):
    """Body of a change: author and reason."""

    by: AuthorName
    reason: Reason


MAX_WORK = 1_000_000  # compared lines: about 0.2 s
CONTEXT = 3


class BoundedDiff(difflib.SequenceMatcher[str]):
    """Sequence matcher with a work limit.

    Attributes:
        is_truncated: The limit was reached, so there may be more matches.
    """

    def __init__(self, old: Sequence[str], new: Sequence[str]) -> None:
        super().__init__(None, old, new)
        positions: Mapping[str, Sequence[int]] = vars(self)["b2j"]  # documented, but missing in the type stubs
        self._mean_matches = 1 + sum(len(positions.get(line, ())) for line in old) / max(1, len(old))
        self._size, self._work, self.is_truncated = len(old), 0.0, False

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> difflib.Match:
        self._work += ((self._size if ahi is None else ahi) - alo) * self._mean_matches
        self.is_truncated = self.is_truncated or self._work > MAX_WORK
        return difflib.Match(alo, blo, 0) if self.is_truncated else super().find_longest_match(alo, ahi, blo, bhi)


def make_unified_diff(old: Sequence[str], new: Sequence[str], before: str, after: str) -> tuple[list[str], bool]:
    """Returns a unified diff, empty for equal texts, and whether it may not be minimal."""
    matcher = BoundedDiff(old, new)
    lines = [line for group in matcher.get_grouped_opcodes(CONTEXT) for line in _format_hunk(group, old, new)]
    return [f"--- {before}", f"+++ {after}", *lines] if lines else [], matcher.is_truncated


def _format_hunk(
    group: Sequence[tuple[str, int, int, int, int]], old: Sequence[str], new: Sequence[str]
) -> Iterator[str]:
    (_, first_old, _, first_new, _), (*_, end_old, _, end_new) = group[0], group[-1]
    yield f"@@ -{_format_range(first_old, end_old)} +{_format_range(first_new, end_new)} @@"
    for kind, old_from, old_to, new_from, new_to in group:
        if kind == "equal":
            yield from (f" {line}" for line in old[old_from:old_to])
            continue
        yield from (f"-{line}" for line in old[old_from:old_to])
        yield from (f"+{line}" for line in new[new_from:new_to])


def _format_range(first: int, end: int) -> str:
    """Formats a line range of a unified diff: from 1; an empty range names the line before it."""
    size = end - first
    return f"{first + (size > 0)}" if size == 1 else f"{first + (size > 0)},{size}"


MAX_SOURCE_CHARS = 200_000  # per source, prompt or response; the rest is downloaded separately
MAX_DIFF_LINES = 4000  # per side
MAX_LINE = 2000  # characters per line of a diff


class Text(BaseModel):
    """A text, truncated if very long; `size` is the full length in characters."""

    text: str
    size: int
    truncated: bool


class Difference(BaseModel):
    """Unified diff of two texts; `truncated` means that the comparison is incomplete."""

    parent: str
    diff: str
    truncated: bool


def truncate(text: str, max_chars: int = MAX_SOURCE_CHARS) -> Text:
    """Truncates a text and replaces lone surrogates."""
    return Text(text=replace_invalid(text[:max_chars]), size=len(text), truncated=len(text) > max_chars)


def replace_invalid(text: str) -> str:
    """Replaces characters that UTF-8 cannot encode."""
    return text.encode("utf-8", "replace").decode("utf-8")


def compare_texts(parent: str, before: str, after: str) -> Difference:
    """Compares two texts line by line."""
    old, is_old_truncated = _split_lines(before)
    new, is_new_truncated = _split_lines(after)
    lines, is_truncated = make_unified_diff(old, new, f"candidate {parent}", "this")
    text = truncate("\n".join(lines))
    return Difference(
        parent=parent, diff=text.text, truncated=text.truncated or is_truncated or is_old_truncated or is_new_truncated
    )


def _split_lines(text: str) -> tuple[list[str], bool]:
    lines = text.splitlines()
    is_truncated = len(lines) > MAX_DIFF_LINES or any(len(line) > MAX_LINE for line in lines[:MAX_DIFF_LINES])
    shortened = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines[:MAX_DIFF_LINES]]
    return shortened, is_truncated


def quote_name(name: str) -> str:
    """Escapes a name for a URL or a header."""
    return quote(replace_invalid(name), safe="")

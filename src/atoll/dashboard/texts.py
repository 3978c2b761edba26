"""Foreign text on its way out: never longer than a page can bear, and always text."""

from urllib.parse import quote

from pydantic import BaseModel

from atoll.dashboard import differences

MAX_SOURCE_CHARS = 200_000  # of a source, a prompt or a reply in an answer; the rest is fetched apart
MAX_DIFF_LINES = 4000  # of each side
MAX_LINE = 2000  # characters of a line in a difference


class Text(BaseModel):
    """A text, cut where it is very long; `size` is that of the whole, in characters."""

    text: str
    size: int
    truncated: bool


class Difference(BaseModel):
    """What changed between two texts, as a unified diff; `truncated` where they were not compared to their ends."""

    parent: str
    diff: str
    truncated: bool


def truncate(text: str, max_chars: int = MAX_SOURCE_CHARS) -> Text:
    """Returns a text as far as it may go; half a surrogate, which no JSON may hold, is shown as a mark."""
    return Text(text=replace_invalid(text[:max_chars]), size=len(text), truncated=len(text) > max_chars)


def replace_invalid(text: str) -> str:
    """Returns a text that UTF-8 can say."""
    return text.encode("utf-8", "replace").decode("utf-8")


def compare_texts(parent: str, before: str, after: str) -> Difference:
    """Compares two texts by lines."""
    old, is_old_truncated = _split_lines(before)
    new, is_new_truncated = _split_lines(after)
    lines, is_truncated = differences.make_unified_diff(old, new, f"candidate {parent}", "this")
    text = truncate("\n".join(lines))
    return Difference(parent=parent, diff=text.text, truncated=text.truncated or is_truncated or is_old_truncated or is_new_truncated)


def _split_lines(text: str) -> tuple[list[str], bool]:
    lines = text.splitlines()
    is_truncated = len(lines) > MAX_DIFF_LINES or any(len(line) > MAX_LINE for line in lines[:MAX_DIFF_LINES])
    shortened = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines[:MAX_DIFF_LINES]]
    return shortened, is_truncated


def quote_name(name: str) -> str:
    """Returns a name as it stands in an address or a header."""
    return quote(replace_invalid(name), safe="")

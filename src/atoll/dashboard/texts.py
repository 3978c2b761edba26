"""Foreign text on its way out: never longer than a page can bear, and always text."""

from urllib.parse import quote

from pydantic import BaseModel

from atoll.dashboard import differences

MAX_CHARS = 200_000  # of a source, a prompt or a reply in an answer; the rest is fetched apart
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


def cut(text: str, most: int = MAX_CHARS) -> Text:
    """Returns a text as far as it may go; half a surrogate, which no JSON may hold, is shown as a mark."""
    return Text(text=sound(text[:most]), size=len(text), truncated=len(text) > most)


def sound(text: str) -> str:
    """Returns a text that UTF-8 can say."""
    return text.encode("utf-8", "replace").decode("utf-8")


def difference(parent: str, before: str, after: str) -> Difference:
    """Compares two texts by lines."""
    old, is_old_cut = _lines(before)
    new, is_new_cut = _lines(after)
    found, is_cut = differences.unified(old, new, f"candidate {parent}", "this")
    said = cut("\n".join(found))
    return Difference(parent=parent, diff=said.text, truncated=said.truncated or is_cut or is_old_cut or is_new_cut)


def _lines(text: str) -> tuple[list[str], bool]:
    lines = text.splitlines()
    is_cut = len(lines) > MAX_DIFF_LINES or any(len(line) > MAX_LINE for line in lines[:MAX_DIFF_LINES])
    shown = [line if len(line) <= MAX_LINE else f"{line[:MAX_LINE]}…" for line in lines[:MAX_DIFF_LINES]]
    return shown, is_cut


def quoted(name: str) -> str:
    """Returns a name as it stands in an address or a header."""
    return quote(sound(name), safe="")

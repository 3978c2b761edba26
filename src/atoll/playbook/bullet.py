"""Bullet: one rule of a playbook, with counts of how often it helped or did harm."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atoll.candidate import JSON

MAX_COUNT = 10**9  # counters stop here, so that sums cannot overflow
MAX_SOURCES = 6  # newest entries of a provenance; a bullet that is confirmed every turn must not grow
MAX_SLUG_CHARS = 32

_WHITESPACE = re.compile(r"\s+")
_ZERO_WIDTH = str.maketrans("", "", "\u200b\u2060\ufeff\u00ad")  # zero width; no spelling needs them


@dataclass(frozen=True, slots=True)
class Bullet:
    """An entry of a playbook.

    Attributes:
        id: Section and serial number, such as `tactics-00001`. Numbers are unique in the playbook and never reused.
        section: Category, one file of the export: `tactics`, `recipes`, `reflections`, ...
        content: The rule, on one line.
        helpful: Number of times it helped.
        harmful: Number of times it did harm.
        created: Turn in which it was created.
        used: Last turn in which it was used or confirmed.
        heading: Dated heading inside the section.
        provenance: Sources, newest last.
        is_pinned: If true, it is never retired.
    """

    id: str
    section: str
    content: str
    helpful: int = 0
    harmful: int = 0
    created: int = 0
    used: int = 0
    heading: str = ""
    provenance: tuple[str, ...] = ()
    is_pinned: bool = False

    @property
    def net_helpful(self) -> int:
        return self.helpful - self.harmful

    @property
    def line(self) -> str:
        """The bullet in the text format of ACE."""
        return f"[{self.id}] helpful={self.helpful} harmful={self.harmful} :: {self.content}"

    def to_data(self) -> dict[str, JSON]:
        """Returns plain data; defaults are left out."""
        data: dict[str, JSON] = {"id": self.id, "section": self.section, "content": self.content}
        for name in ("helpful", "harmful", "created", "used", "heading"):
            if value := getattr(self, name):
                data[name] = value
        if self.provenance:
            data["provenance"] = list(self.provenance)
        return data | ({"pinned": True} if self.is_pinned else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Bullet":
        """Creates a bullet from the result of `to_data`.

        Raises:
            KeyError, TypeError, ValueError: The data is not a bullet.
        """
        id, section, content = (str(data[name]) for name in ("id", "section", "content"))
        if parse_serial(id) is None or not is_slug(section) or not id.startswith(f"{section}-"):
            raise ValueError(f"{id[:80]!r} is not a bullet id of section {section[:80]!r}")
        if problem := find_bad_character(content) or find_bad_character(str(data.get("heading", ""))):
            raise ValueError(f"the text of {id} is not valid: {problem}")
        counts = {name: clamp_count(data.get(name, 0)) for name in ("helpful", "harmful", "created", "used")}
        sources = tuple(map(str, data.get("provenance", ())))
        heading, is_pinned = str(data.get("heading", "")), bool(data.get("pinned", False))
        return cls(id, section, content, **counts, heading=heading, provenance=sources, is_pinned=is_pinned)


def format_bullet(bullet: Bullet, max_chars: int = 0) -> str:
    """Returns a bullet for a prompt, with its counts. A rule that did more harm than good is marked.

    Args:
        bullet: The rule.
        max_chars: Maximum characters of its text; 0 means all.
    """
    content = bullet.content
    if 0 < max_chars < len(content):
        content = f"{content[: max_chars - 1].rstrip()}…"
    mark = " (DOUBTFUL: it did more harm than good)" if bullet.net_helpful < 0 else ""
    return f"[{bullet.id}] helpful={bullet.helpful} harmful={bullet.harmful} ::{mark} {content}"


def make_id(section: str, serial: int) -> str:
    return f"{section}-{serial:05d}"


def parse_serial(id: str) -> int | None:
    """Returns the serial number of a bullet id, or None if the id is not valid."""
    section, _, digits = id.rpartition("-")
    return int(digits) if is_slug(section) and re.fullmatch(r"[0-9]{5,12}", digits) else None


def clamp_count(value: object) -> int:
    """Returns the value limited to 0 to MAX_COUNT.

    Raises:
        ValueError: The value is not an integer.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a counter must be an integer, not {value!r:.40}")
    return max(0, min(value, MAX_COUNT))


def make_slug(name: str) -> str:
    """Returns the section name used in ids and file names, in the alphabet of the name; empty for an empty name.

    Accents of Latin letters are dropped. Other alphabets stay. A name of symbols becomes its code points.
    """
    text = unicodedata.normalize("NFKC", name[:200]).casefold().strip()
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    is_latin = sum(map(str.isalpha, plain)) == sum(map(str.isalpha, text))
    chars = (char if _is_slug_char(char) else "_" for char in (plain if is_latin else text))
    slug = re.sub("_+", "_", "".join(chars)).strip("_")
    if not slug and text:
        return "s_" + "_".join(f"{ord(char):x}" for char in text[:4])
    slug = slug.lstrip("0123456789_") if slug[:1].isdigit() and any(map(str.isalpha, slug)) else slug
    slug = slug if slug[:1].isalpha() or not slug else f"s_{slug}"
    return slug[:MAX_SLUG_CHARS].rstrip("_")


def is_slug(text: str) -> bool:
    """Returns whether a text is a section name as `make_slug` returns it."""
    is_short = 0 < len(text) <= MAX_SLUG_CHARS and text[0].isalpha() and text == text.casefold()
    return is_short and all(_is_slug_char(char) for char in text)


def _is_slug_char(char: str) -> bool:
    return char == "_" or unicodedata.category(char)[0] in "LMN"


def to_one_line(text: str) -> str:
    """Returns the text on one line, in Unicode form NFC, without zero-width characters."""
    return _WHITESPACE.sub(" ", unicodedata.normalize("NFC", text.translate(_ZERO_WIDTH))).strip()


def find_bad_character(text: str) -> str:
    """Describes the first character that could hide or break a line; empty if all are allowed."""
    if text.isascii() and text.isprintable():
        return ""
    for char in text:
        category = unicodedata.category(char)
        if category in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(char) in _BIDI_CLASSES:
            return f"the character U+{ord(char):04X} is not allowed"
    return ""


_BIDI_CLASSES = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})

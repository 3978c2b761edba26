"""One thing that an agent knows, with what became of using it."""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from atoll.candidate import JSON

MAX_COUNT = 10**9  # counters stop here, so that nobody's arithmetic overflows
MAX_SOURCES = 6  # of a bullet's provenance, the newest; a bullet that is confirmed every turn must not grow
SLUG = re.compile(r"[a-z][a-z0-9_]{0,31}")

_WHITESPACE = re.compile(r"\s+")
_ZERO_WIDTH = str.maketrans("", "", "\u200b\u2060\ufeff\u00ad")  # zero width, and nobody's spelling needs them


@dataclass(frozen=True, slots=True)
class Bullet:
    """An entry of a playbook.

    Attributes:
        id: `tactics-00001`: the section and a number that runs through the whole playbook and is never used again.
        section: Its category, which is a file of the export: `tactics`, `recipes`, `reflections`, ...
        content: What is known, on one line.
        helpful: How often it helped.
        harmful: How often it did harm.
        created: The turn it was made in.
        used: The last turn in which it was used or confirmed.
        heading: The dated part of its section that it stands in.
        provenance: Where it comes from, the newest last.
        is_pinned: Whether it is never retired.
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
        """Its line in the way ACE writes it."""
        return f"[{self.id}] helpful={self.helpful} harmful={self.harmful} :: {self.content}"

    def to_data(self) -> dict[str, JSON]:
        """Returns plain data without what is as usual."""
        data: dict[str, JSON] = {"id": self.id, "section": self.section, "content": self.content}
        for name in ("helpful", "harmful", "created", "used", "heading"):
            if value := getattr(self, name):
                data[name] = value
        if self.provenance:
            data["provenance"] = list(self.provenance)
        return data | ({"pinned": True} if self.is_pinned else {})

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Bullet":
        """Reads what `to_data` returned.

        Raises:
            KeyError, TypeError, ValueError: It is no such thing.
        """
        id, section, content = (str(data[name]) for name in ("id", "section", "content"))
        if parse_serial(id) is None or not SLUG.fullmatch(section) or not id.startswith(f"{section}-"):
            raise ValueError(f"{id[:80]!r} is no id of a bullet in the section {section[:80]!r}")
        if problem := find_bad_character(content) or find_bad_character(str(data.get("heading", ""))):
            raise ValueError(f"the text of {id} cannot be used: {problem}")
        counts = {name: clamp_count(data.get(name, 0)) for name in ("helpful", "harmful", "created", "used")}
        sources = tuple(map(str, data.get("provenance", ())))
        heading, is_pinned = str(data.get("heading", "")), bool(data.get("pinned", False))
        return cls(id, section, content, **counts, heading=heading, provenance=sources, is_pinned=is_pinned)


def make_id(section: str, serial: int) -> str:
    return f"{section}-{serial:05d}"


def parse_serial(id: str) -> int | None:
    """Returns the running number in an id, or None if it is none."""
    match = re.fullmatch(r"[a-z][a-z0-9_]{0,31}-([0-9]{5,12})", id)
    return int(match[1]) if match else None


def clamp_count(value: object) -> int:
    """Returns a counter within its bounds.

    Raises:
        ValueError: It is no whole number.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(f"a counter is a whole number and not {value!r:.40}")
    return max(0, min(value, MAX_COUNT))


def make_slug(name: str) -> str:
    """Returns a section's name as ids and files have it; empty if nothing of it can stand there."""
    ascii_name = unicodedata.normalize("NFKD", name[:200]).encode("ascii", "ignore").decode().casefold()
    return re.sub(r"[^a-z0-9]+", "_", ascii_name).strip("_0123456789")[:32].rstrip("_")


def to_one_line(text: str) -> str:
    """Returns a text in one composed form, on one line, without characters of no width."""
    return _WHITESPACE.sub(" ", unicodedata.normalize("NFC", text.translate(_ZERO_WIDTH))).strip()


def find_bad_character(text: str) -> str:
    """Says which character of a text has no place in a playbook: it could hide what a line says, or break it."""
    if text.isascii() and text.isprintable():
        return ""
    for char in text:
        category = unicodedata.category(char)
        if category in ("Cc", "Cs", "Zl", "Zp") or unicodedata.bidirectional(char) in _BIDI_CLASSES:
            return f"the character U+{ord(char):04X} in it is not allowed"
    return ""


_BIDI_CLASSES = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})

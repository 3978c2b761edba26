"""Words of a world on their way to a prompt: seen through their disguises, shown so that they stay one word."""

import functools
import re
import unicodedata

from atoll import identities

MAX_NAME_CHARS = 120
_PLAIN_NAME = re.compile(r"[\w.+-](?:[\w./+-]{0,118}[\w+-])?", re.ASCII)
# Words that speak to the agent instead of being seen by it.
_INSTRUCTIONS = re.compile(
    r"ignore (?:\w+ ){0,3}(previous|prior|above|earlier)|disregard (all|previous|the above|your)|system prompt"
    r"|forget (?:\w+ ){0,3}(above|before|previous|instructions)|you are now|new instructions|override (your|the)"
    r"|<\|.{0,20}\|>|</?(system|assistant|instructions?)>|rm -rf|sudo\b"
)


@functools.lru_cache(maxsize=4096)
def contains_instructions(text: str) -> bool:
    """Tells whether words speak to the agent, in whatever blanks, widths, accents or letters they are written."""
    if text.isascii():
        return _INSTRUCTIONS.search(" ".join(text.lower().split())) is not None
    chars = (char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) not in ("Cf", "Mn"))
    plain_text = " ".join("".join(chars).casefold().split())
    return (
        _INSTRUCTIONS.search(plain_text) is not None
        or _INSTRUCTIONS.search(plain_text.translate(identities.LOOKALIKES)) is not None
    )


def is_safe_name(name: str) -> bool:
    """Tells whether the name of a file may stand in a prompt at all: it can be read, is short, and gives no orders."""
    spaced = re.sub(r"[\W_]+", " ", name)  # a name has other blanks: ignore_all-previous.md
    return (
        name.isprintable()
        and len(name) <= MAX_NAME_CHARS
        and not contains_instructions(name)
        and not contains_instructions(spaced)
    )


def quote_name(name: str) -> str:
    """Returns a name as a prompt shows it: in quotes, with all but plain letters spelled out, unless it is plain."""
    return name if _PLAIN_NAME.fullmatch(name) else ascii(name)

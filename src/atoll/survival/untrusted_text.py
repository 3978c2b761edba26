"""Text from a world on its way to a prompt: detects hidden instructions and quotes names."""

import functools
import re
import unicodedata

from atoll import identities

MAX_NAME_CHARS = 120
_PLAIN_NAME = re.compile(r"[\w.+-](?:[\w./+-]{0,118}[\w+-])?", re.ASCII)
# Text that addresses the agent.
_INSTRUCTIONS = re.compile(
    r"ignore (?:\w+ ){0,3}(previous|prior|above|earlier)|disregard (all|previous|the above|your)|system prompt"
    r"|forget (?:\w+ ){0,3}(above|before|previous|instructions)|you are now|new instructions|override (your|the)"
    r"|<\|.{0,20}\|>|</?(system|assistant|instructions?)>|rm -rf|sudo\b"
)


@functools.lru_cache(maxsize=4096)
def contains_instructions(text: str) -> bool:
    """Returns whether a text addresses the agent, in any spacing, width, accents or similar letters."""
    if text.isascii():
        return _INSTRUCTIONS.search(" ".join(text.lower().split())) is not None
    chars = (char for char in unicodedata.normalize("NFKD", text) if unicodedata.category(char) not in ("Cf", "Mn"))
    plain_text = " ".join("".join(chars).casefold().split())
    latin_text = plain_text.translate(identities.LOOKALIKES)
    return any(_INSTRUCTIONS.search(variant) is not None for variant in (plain_text, latin_text))


def is_safe_name(name: str) -> bool:
    """Returns whether a file name may appear in a prompt: printable, short and without instructions."""
    spaced = re.sub(r"[\W_]+", " ", name)  # names separate words differently: ignore_all-previous.md
    is_readable = name.isprintable() and len(name) <= MAX_NAME_CHARS
    return is_readable and not contains_instructions(name) and not contains_instructions(spaced)


def quote_name(name: str) -> str:
    """Returns a name for a prompt. Names with unusual characters are quoted and escaped."""
    return name if _PLAIN_NAME.fullmatch(name) else ascii(name)

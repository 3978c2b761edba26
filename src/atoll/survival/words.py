"""Words of a world on their way to a prompt: seen through their disguises, shown so that they stay one word."""

import functools
import re
import unicodedata

from atoll import persons

LONGEST_NAME = 120
_PLAIN = re.compile(r"[\w.+-](?:[\w./+-]{0,118}[\w+-])?", re.ASCII)
# Words that speak to the agent instead of being seen by it.
_ORDERS = re.compile(
    r"ignore (?:\w+ ){0,3}(previous|prior|above|earlier)|disregard (all|previous|the above|your)|system prompt"
    r"|forget (?:\w+ ){0,3}(above|before|previous|instructions)|you are now|new instructions|override (your|the)"
    r"|<\|.{0,20}\|>|</?(system|assistant|instructions?)>|rm -rf|sudo\b"
)


@functools.lru_cache(maxsize=4096)
def gives_orders(words: str) -> bool:
    """Tells whether words speak to the agent, in whatever blanks, widths, accents or letters they are written."""
    if words.isascii():
        return _ORDERS.search(" ".join(words.lower().split())) is not None
    letters = (each for each in unicodedata.normalize("NFKD", words) if unicodedata.category(each) not in ("Cf", "Mn"))
    bare = " ".join("".join(letters).casefold().split())
    return _ORDERS.search(bare) is not None or _ORDERS.search(bare.translate(persons.SHAPES)) is not None


def is_fit(name: str) -> bool:
    """Tells whether the name of a file may stand in a prompt at all: it can be read, is short, and gives no orders."""
    spaced = re.sub(r"[\W_]+", " ", name)  # a name has other blanks: ignore_all-previous.md
    return name.isprintable() and len(name) <= LONGEST_NAME and not gives_orders(name) and not gives_orders(spaced)


def quoted(name: str) -> str:
    """Returns a name as a prompt shows it: in quotes, with all but plain letters spelled out, unless it is plain."""
    return name if _PLAIN.fullmatch(name) else ascii(name)

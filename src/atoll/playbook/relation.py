"""How two texts stand to each other."""

from typing import Literal

from atoll.playbook import wording

type Relation = Literal["same", "duplicate", "contradiction", "variant", "different"]


def relate(first: str, second: str) -> Relation:
    """Says whether two texts say the same."""
    return "same" if wording.plain(first) == wording.plain(second) else "different"


def keeps(text: str, other: str) -> bool:
    """Tells whether a text still says every number that another one says."""
    return _numbers(other) <= _numbers(text)


def _numbers(text: str) -> frozenset[str]:
    return frozenset(word for word in wording.plain(text).split() if word[0].isdigit())

"""How two texts stand to each other: whether one may take the place of the other, or denies it.

What a merge destroys cannot be had back, while a duplicate only costs tokens. So texts are duplicates only if all that
they say is the same, word for word or by the lexicon: denials, numbers, units, directions, and who does what to whom.
A word that differs and is not known to mean the same keeps them apart.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Literal

from atoll.playbook import lexicon, wording
from atoll.playbook.meaning import CONDITIONS, NEG, NUMBER, Meaning, Part, read, spelled

type Relation = Literal["same", "duplicate", "contradiction", "variant", "different"]


@functools.lru_cache(maxsize=4_096)
def relate(first: str, second: str) -> Relation:
    """Says how two texts stand to each other.

    Returns:
        same: But for case, width, punctuation and white space.
        duplicate: They say the same in other words.
        contradiction: One denies the other, or says the opposite.
        variant: They are alike but for numbers, or for where or when.
        different: Anything else.
    """
    if wording.plain(first) == wording.plain(second) and _symbols(first) == _symbols(second):
        return "same"
    if sorted(set(_symbols(first)) - _READ) != sorted(set(_symbols(second)) - _READ):
        return "different"
    if {_mood(first), _mood(second)} == {"may", "must"}:
        return "different"
    best: Relation = "different"
    for one, other in itertools.product(read(first), read(second)):
        best = min(best, _related(one, other), key=_ORDER.index)
        if best == "duplicate":
            break
    return best


_READ = frozenset("<>%&+*/$€-")  # symbols that a meaning has as concepts
_MAY, _MUST = frozenset({"can", "could", "may", "might"}), frozenset({"must", "shall", "should", "always"})
_DENIED = frozenset({"not", "never", "no", "cannot", "cant", "dont"})
_ORDER: list[Relation] = ["same", "duplicate", "contradiction", "variant", "different"]


def _related(one: Meaning, other: Meaning) -> Relation:
    if not one.bag or not other.bag or any(map(_tells_apart, one.bag.keys() ^ other.bag.keys())):
        return "different"
    if _agree(one, other):
        return "duplicate"
    if _agree(_without(one, NEG), _without(other, NEG)):
        return "contradiction" if (_count(one) - _count(other)) % 2 else "different"
    for turned, is_fact in _opposites(one, other):
        if _agree(turned, other):
            return "variant" if is_fact else "contradiction"
    return "variant" if _agree(_unnumbered(one), _unnumbered(other)) else "different"


def keeps(text: str, other: str) -> bool:
    """Tells whether a text still says every number and every denial that another one says."""
    mine, theirs = read(text)[0].bag, read(other)[0].bag
    return all(mine[each] >= count for each, count in theirs.items() if each == NEG or each.startswith(NUMBER))


def _tells_apart(concept: str) -> bool:
    """Tells whether two texts of which one has a concept are different whatever else they say."""
    return concept != NEG and concept[0] not in f"{NUMBER}@" and concept not in _OPPOSITES


def _agree(one: Meaning, other: Meaning) -> bool:
    """Tells whether two meanings have the same parts in any order, or are the same row begun at another place."""
    if one.said == other.said:
        return True
    mine, theirs = one.sequence, other.sequence
    if len(mine) != len(theirs) or one.bag != other.bag:
        return False
    if len(mine) == 2 and NEG not in mine:
        return False  # `spiders are insects` is not `insects are spiders`
    return any(mine[place:] + mine[:place] == theirs for place in range(len(mine)))


def _count(meaning: Meaning) -> int:
    return sum(part.concepts.count(NEG) for part in meaning.parts)


def _mapped(meaning: Meaning, table: Mapping[str, str]) -> Meaning:
    parts = (
        Part(table.get(part.joint, part.joint), tuple(put for each in part.concepts if (put := table.get(each, each))))
        for part in meaning.parts
    )
    return Meaning(tuple(part for part in parts if part.concepts), meaning.is_motion)


def _without(meaning: Meaning, concept: str) -> Meaning:
    return _mapped(meaning, {concept: ""})


def _unnumbered(meaning: Meaning) -> Meaning:
    return _mapped(meaning, {each: NUMBER for each in meaning.sequence if each.startswith(NUMBER)})


def _opposites(one: Meaning, other: Meaning) -> Iterator[tuple[Meaning, bool]]:
    """Yields the first meaning with one concept turned into its opposite, and whether both could be true at once."""
    theirs = set(other.sequence)
    for number, part in enumerate(one.parts):
        for place, concept in enumerate((part.joint, *part.concepts)):
            for opposite in _OPPOSITES.get(concept, frozenset()) & theirs:
                words = [part.joint, *part.concepts]
                words[place] = opposite
                turned = Part(words[0], tuple(words[1:]))
                is_fact = part.joint in CONDITIONS or (concept in _PLACES and not one.is_motion)
                yield Meaning((*one.parts[:number], turned, *one.parts[number + 1 :]), one.is_motion), is_fact


def _mood(text: str) -> str:
    """Tells what one may do from what one must do; what is denied is neither: `cannot` is `must not`."""
    words = set(wording.plain(text).split())
    if words & _DENIED or (words & _MAY and words & _MUST):
        return ""
    return "may" if words & _MAY else "must" if words & _MUST else ""


@functools.lru_cache(maxsize=4_096)
def _symbols(text: str) -> tuple[str, ...]:
    """Returns what is neither a word nor punctuation: `x < 5` and `x > 5` have the same words."""
    folded = unicodedata.normalize("NFKC", text)
    found = [each for each in folded if unicodedata.category(each)[0] == "S" or each in "%&@#*/\\"]
    return (*found, *re.findall(r"!=|(?<!\w)-(?=\d)", folded))


def _read_opposites() -> Mapping[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for pair in lexicon.OPPOSITES:
        one, other = map(_named, pair)
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {name: frozenset(others) for name, others in found.items()}


def _named(word: str) -> str:
    """Returns the concept that a word of the lexicon names: itself, or what a text with it would hold."""
    if word in lexicon.CONCEPTS:
        return word
    concepts = read(word)[0].sequence
    return concepts[0] if len(concepts) == 1 else spelled(word)


_OPPOSITES = _read_opposites()
_PLACES = frozenset(map(_named, lexicon.PLACES))

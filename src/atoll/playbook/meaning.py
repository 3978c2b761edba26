"""Reads a rule into what it says: concepts in the parts of a sentence, with denials, numbers and joints kept apart."""

import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll.playbook import lexicon, wording

NEG = "neg"
NUMBER = "#"
CONDITIONS = frozenset({"if", "unless", "until"})
JOINED = frozenset({"before", "after", "during", "because", "so", "but", *CONDITIONS})  # these begin a part as well
LOOSE = "@in"  # where and when: such a part may stand anywhere
MAX_UNSURE = 3  # words with two readings that are told apart: 8 readings
LONGEST = 4_000  # characters that are read
MOTION = frozenset({"go", "turn"})

_TOKEN = re.compile(r"[-\u2212]?\d[\d,]*(?:\.\d+)*|[^\W\d_]+|[,;.:!?()<>=%$€&+*/]")
_SHORT = (("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not"), ("'re", " are"))
_SIGNS = {"<": "below", ">": "above", "%": "percent", "=": "equal", "&": "and", "+": "plus", "*": "times", "/": "slash"}
_STOPS = frozenset(",;.:!?()")
_BE = frozenset({"is", "are", "was", "were", "be", "been", "being"})
_DENIALS = frozenset({"not", "never"})
_PRONOUNS = frozenset({"it", "them"})
_ARTICLES = frozenset({"a", "an", "the", "this", "that", "these", "those", "your", "its", "their", "our", "my"})
_BREAKS = frozenset(",;.:!?()") | {
    "if",
    "when",
    "whenever",
    "before",
    "after",
    "until",
    "unless",
    "because",
    "that",
    "and",
}
_BY_HOW_MUCH = frozenset({"divided", "multiplied", "increased", "decreased", "reduced", "raised", "lowered"})
_QUANTIFIERS = frozenset({"all", "some", "most", "only", "often", "sometimes", "rarely", "almost"})
_ADVERB = re.compile(r"(?<=[a-z]{4})(?:li|ness)$")  # `separately` is `separate`; a stem ends in i for y
_WAITING = re.compile(r"\bwait (?:until|till) ([^,.;]+?) before ([^,.;]+)")
_EXTRA = re.compile(r"\bit (is|takes|costs|needs|requires) ([^,.;]+?) to ([^,.;]+)")
_AIM = r"to (?:get|find|obtain|calculate|compute|determine)"
_RECIPES = (  # `divide a by b to get c` and `to get c, divide a by b` are `c is a divided by b`
    re.compile(rf"\b(?P<how>divide|multiply) (?P<one>[^,.;]+?) by (?P<other>[^,.;]+?) {_AIM} (?P<what>[^,.;]+)"),
    re.compile(rf"\b{_AIM} (?P<what>[^,.;]+?), (?P<how>divide|multiply) (?P<one>[^,.;]+?) by (?P<other>[^,.;]+)"),
)


class Part(NamedTuple):
    """A stretch of a sentence: the joint that it begins with (empty for none), and its concepts in order."""

    joint: str
    concepts: tuple[str, ...]


@dataclass(frozen=True)
class Meaning:
    """What a text says, as far as words go.

    Attributes:
        parts: In their order.
        is_motion: Whether it tells somebody to move, so that a direction is the point of it.
    """

    parts: tuple[Part, ...]
    is_motion: bool = False

    @functools.cached_property
    def sequence(self) -> tuple[str, ...]:
        """All concepts in a row, with the joints that matter wherever the part stands."""
        # What is denied depends on the part that a denial stands in: then every joint matters.
        free = ("",) if any(NEG in part.concepts for part in self.parts) else ("", LOOSE)
        return tuple(
            each for part in self.parts for each in (*([part.joint] if part.joint not in free else []), *part.concepts)
        )

    @functools.cached_property
    def bag(self) -> Counter[str]:
        """The concepts and joints, in no order."""
        return Counter(self.sequence)

    @functools.cached_property
    def said(self) -> Counter[Part]:
        """The parts in no order, denials first in each; among quantifiers their place matters: `not all`, `all not`."""
        return Counter(Part(part.joint, _denied(part.concepts)) for part in self.parts)


def _denied(concepts: tuple[str, ...]) -> tuple[str, ...]:
    if NEG not in concepts or not _QUANTIFIERS.isdisjoint(concepts):
        return concepts
    return (*(each for each in concepts if each == NEG), *(each for each in concepts if each != NEG))


@functools.lru_cache(maxsize=4_096)
def read(text: str) -> tuple[Meaning, ...]:
    """Returns what a text says; two readings where a word in it may say something or nothing."""
    tokens = list(_tokens(_in_order(_plain(text))))
    unsure = [token for token in dict.fromkeys(tokens) if token in lexicon.UNSURE][:MAX_UNSURE]
    found = dict.fromkeys(
        _meaning([put for token in tokens if (put := chosen.get(token, token))])
        for ways in itertools.product(*(lexicon.UNSURE[token] for token in unsure))
        for chosen in [dict(zip(unsure, ways, strict=True))]
    )
    return tuple(found)


def _meaning(tokens: Sequence[str]) -> Meaning:
    parts: list[Part] = [Part("", ())]
    for token, after in zip(tokens, [*tokens[1:], ""], strict=False):
        if token in _STOPS:
            parts.append(Part("", ()))
        elif token == "@for" and after.startswith(NUMBER):
            continue  # `lasts for 5 turns` is `lasts 5 turns`
        elif _is_joint(token):
            parts.append(Part(token, ()))
        else:
            parts[-1] = Part(parts[-1].joint, (*parts[-1].concepts, token))
    is_motion = any(token in MOTION for token in tokens[:2])
    said = [Part(part.joint, _unlight(_counted(_turned(part.concepts)))) for part in parts]
    resolved = _resolved([part for part in said if part.concepts])
    limited = _limited(_reached(_served(resolved)))
    # `when it storms` and `in storms` are one: a condition of one word is a time or a place.
    is_brief = (part.joint == "if" and len(part.concepts) == 1 for part in limited)
    placed = (Part(LOOSE, part.concepts) if brief else part for part, brief in zip(limited, is_brief, strict=True))
    return Meaning(tuple(placed), is_motion)


def _served(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Writes `use a rope to climb` as `climb with a rope`."""
    aims = [part for part in parts if part.joint == "@to"]
    for part in parts:
        limit = part.concepts[:1] if part.concepts[0] == "only" else ()
        verb, *what = part.concepts[len(limit) :] or ("",)
        if part.joint == "" and verb == "use" and what and len(aims) == 1:
            put = {part: Part("@with", (*limit, *what)), aims[0]: Part("", aims[0].concepts)}
            return tuple(put.get(each, each) for each in parts)
    return parts


def _reached(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Writes `reply to customers` as `answer customers`: after a lone verb the joint says nothing."""
    for one, other in itertools.pairwise(parts):
        if one.joint == "" and other.joint == "@to" and len(_named(one)) == 1:
            joined = Part("", (*one.concepts, *other.concepts))
            return tuple(joined if part is one else part for part in parts if part is not other)
    return parts


def _limited(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Moves an `only` to what it limits: `swim in calm water only` is `swim only in calm water`."""
    found = list(parts)
    for place, part in enumerate(found):
        if "only" not in (part.concepts[0], part.concepts[-1]) or len(part.concepts) < 2:
            continue
        rest = part.concepts[1:] if part.concepts[0] == "only" else part.concepts[:-1]
        to = place + 1 if part.concepts[-1] == "only" else next(
            (at for at, each in enumerate(found) if each.joint in CONDITIONS and at != place), place
        )  # fmt: skip
        to = to if to < len(found) and found[to].joint else place
        found[place] = Part(part.joint, rest)
        found[to] = Part(found[to].joint, ("only", *found[to].concepts))
        break
    return tuple(found)


def _resolved(parts: Sequence[Part]) -> tuple[Part, ...]:
    """Puts what is spoken of for `it`, and for nothing: `cook meat before eating (it)` is about eating meat."""
    found: list[Part] = []
    for place, part in enumerate(parts):
        others = [each for each in (*parts[:place][::-1], *parts[place + 1 :]) if len(_named(each)) > 1]
        topic = _named(others[0])[1:] if others else ()
        concepts = tuple(word for each in part.concepts for word in (topic if each in _PRONOUNS else (each,)))
        if part.joint in ("before", "after") and len(part.concepts) == 1:
            concepts = (*concepts, *topic)
        if concepts:
            found.append(Part(part.joint, concepts))
    return tuple(found)


def _named(part: Part) -> tuple[str, ...]:
    return tuple(each for each in part.concepts if each not in _PRONOUNS and each != NEG)


def _plain(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text[:LONGEST]).casefold().replace("\u2019", "'").replace("\u2212", "-")
    for short, long in _SHORT:
        folded = folded.replace(short, long)
    folded = re.sub(r"(?<=\w)'s\b", " is" if folded.startswith("it's") else "", folded).replace("'", "")
    folded = _WAITING.sub(r"do not \2 until \1", folded)
    for recipe in _RECIPES:
        folded = recipe.sub(_as_definition, folded)
    return _EXTRA.sub(r"\3 \1 \2", folded)  # `it takes time to cook` is `to cook takes time`


def _as_definition(recipe: re.Match[str]) -> str:
    done = "divided" if recipe["how"] == "divide" else "multiplied"
    return f"{recipe['what']} is {recipe['one']} {done} by {recipe['other']}"


def _in_order(text: str) -> list[str]:
    """Returns the words, with `bones are dropped by skeletons` turned into `skeletons dropped bones`."""
    words = [
        each.rstrip(",").replace(",", "") if any(map(str.isdigit, each)) else each for each in _TOKEN.findall(text)
    ]
    for place in range(1, len(words) - 1):
        done = words[place + 1]
        if words[place] not in _BE or not (done.endswith("ed") or done in _PARTICIPLES):
            continue
        begin = next((at + 1 for at in range(place - 1, -1, -1) if words[at] in _BREAKS), 0)
        subject, rest = words[begin:place], words[place + 2 :]
        denied = [each for each in subject if each in _DENIALS]
        agent: list[str] = []
        if rest[:1] == ["by"] and done not in _BY_HOW_MUCH:
            end = next((at for at, each in enumerate(rest[1:], 1) if each in _BREAKS), len(rest))
            agent, rest = rest[1:end], rest[end:]
        named = [each for each in subject if each not in denied]
        return [*words[:begin], *agent, *denied, done, *named, *rest]
    return words


def _tokens(words: Sequence[str]) -> Iterator[str]:
    """Yields concepts and joints for words, taking the longest phrase that is known at each place."""
    known = ["with" if _is_means(words, place) else word for place, word in enumerate(words)]
    stems = [spelled(word) for word in known]
    place = 0
    while place < len(words):
        found, size = _phrase(known, stems, place)
        place += size
        if len(found) == 1 and found[0].startswith("@") and _is_end(known, stems, place):
            yield known[place - 1]  # `turn it off`: nothing follows that it could join
        else:
            yield from found


def _phrase(words: Sequence[str], stems: Sequence[str], place: int) -> tuple[tuple[str, ...], int]:
    for size in range(min(_LONGEST_PHRASE, len(words) - place), 0, -1):
        for said in (words, stems):  # `units` is no form of `unite`, though their stems agree
            found = _PHRASES.get(tuple(said[place : place + size]))
            if found is not None:
                return found, size
    return (_concept(words[place], stems[place]),), 1


def _is_end(words: Sequence[str], stems: Sequence[str], place: int) -> bool:
    return place == len(words) or words[place] in _STOPS or _is_joint(_phrase(words, stems, place)[0][:1])


def _is_means(words: Sequence[str], place: int) -> bool:
    """Tells `climb using a rope` from `before using a rope`."""
    return words[place] == "using" and place > 0 and words[place - 1] not in _BREAKS | {"by"}


def _concept(word: str, stem: str) -> str:
    if word in _SIGNS:
        return _SIGNS[word]
    if word in lexicon.NUMBERS:
        return f"{NUMBER}{lexicon.NUMBERS[word]}"
    return f"{NUMBER}{word}" if word[-1].isdigit() else _ADVERB.sub("", stem)


@functools.lru_cache(maxsize=8_192)
def spelled(word: str) -> str:
    """Returns the stem of a word in one of the spellings that English has."""
    word = lexicon.IRREGULAR.get(word, word)
    if len(word) > 4 and word.isalpha():
        word = word.replace("our", "or").replace("isation", "ization")
        word = re.sub(r"is(e|ed|es|ing)$", r"iz\1", word) if len(word) > 6 else word
        word = re.sub(r"tre$", "ter", word).replace("grey", "gray")
    return wording.stem(word)


def _is_joint(token: str | tuple[str, ...]) -> bool:
    if isinstance(token, tuple):
        return bool(token) and _is_joint(token[0])
    return token in _STOPS or token.startswith("@") or token in JOINED


def _turned(concepts: tuple[str, ...]) -> tuple[str, ...]:
    """Writes `time of the meeting` as `meeting time`."""
    found: list[str] = []
    heads: list[str] = []
    for concept in concepts:
        if concept == "of":
            heads += [found.pop()] if found and found[-1] != NEG else []
        elif concept in _ARTICLES:
            continue
        else:
            found += [concept, *reversed(heads)]
            heads = []
    return (*found, *reversed(heads))


def _counted(concepts: Sequence[str]) -> tuple[str, ...]:
    """Writes times in seconds: an hour is 60 minutes."""
    found: list[str] = []
    for concept in concepts:
        seconds = lexicon.SECONDS.get(concept)
        amount = found[-1][1:] if found and found[-1].startswith(NUMBER) else ""
        if seconds is not None and re.fullmatch(r"\d+(\.\d+)?", amount):
            found[-1] = f"{NUMBER}{float(amount) * seconds:.12g} s"
        elif concept != "time" or not amount:  # `two times` is `twice`
            found.append(concept)
    return tuple(found)


def _unlight(concepts: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for each in concepts if each not in _LIGHT or each in _PRONOUNS)


def _read_phrases() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Returns what stands for a phrase, by its words and by their stems."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, phrases in lexicon.CONCEPTS.items():
        found |= _forms(phrases, (NEG, name[1:]) if name.startswith("-") else (name,))
    for name, phrases in lexicon.JOINTS.items():
        found |= _forms(phrases, (name if name in JOINED else f"@{name}",))
    return found | _forms(lexicon.EMPTY, ())


def _forms(phrases: Sequence[str], put: tuple[str, ...]) -> dict[tuple[str, ...], tuple[str, ...]]:
    words = [tuple(phrase.split()) for phrase in phrases]
    return dict.fromkeys([tuple(map(spelled, each)) for each in words] + words, put)


_PARTICIPLES = frozenset(lexicon.IRREGULAR) | {"set", "put", "cut", "read", "hurt", "hit", "shut", "split", "spread"}
_PHRASES = _read_phrases()
_LONGEST_PHRASE = max(map(len, _PHRASES))
_LIGHT = frozenset(form for word in lexicon.LIGHT for form in (word, _concept(word, spelled(word))))

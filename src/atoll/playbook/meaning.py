"""Reads a rule into what it says: concepts in the parts of a sentence, with denials, numbers and joints kept apart."""

import functools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from atoll.playbook import lexicon, wording

NEG = "neg"
NUMBER = "#"
CONDITIONS = frozenset({"if", "unless", "until"})
JOINED = frozenset({"before", "after", "during", "because", "so", "but", *CONDITIONS})  # these begin a part as well
LOOSE = "@in"  # where and when: such a part may stand anywhere
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
_BREAKS = frozenset(",;.:!?()") | {"if", "when", "whenever", "before", "after", "until", "unless", "because", "that", "and"}
_EXTRA = re.compile(r"\bit (is|takes|costs|needs|requires) ([^,.;]+?) to ([^,.;]+)")


class Part(NamedTuple):
    """A stretch of a sentence: the joint that it begins with (empty for none), and its concepts in order."""

    joint: str
    concepts: tuple[str, ...]


class Meaning(NamedTuple):
    """What a text says, as far as words go.

    Attributes:
        parts: In their order.
        is_motion: Whether it tells somebody to move, so that a direction is the point of it.
    """

    parts: tuple[Part, ...]
    is_motion: bool = False

    def sequence(self) -> tuple[str, ...]:
        """Returns all concepts in a row, with the joints that matter wherever the part stands."""
        return tuple(
            each
            for part in self.parts
            for each in (*([part.joint] if part.joint not in ("", LOOSE) else []), *part.concepts)
        )


@functools.lru_cache(maxsize=20_000)
def read(text: str) -> tuple[Meaning, ...]:
    """Returns what a text says; two readings where a word in it may say something or nothing."""
    words = _in_order(_plain(text))
    tokens = list(_tokens(words))
    found = [_meaning([lexicon.UNSURE.get(token, token) for token in tokens])]
    if any(token in lexicon.UNSURE for token in tokens):
        found.append(_meaning([token for token in tokens if token not in lexicon.UNSURE]))
    return tuple(found)


def _meaning(tokens: Sequence[str]) -> Meaning:
    parts: list[Part] = [Part("", ())]
    for token in tokens:
        if token in _STOPS:
            parts.append(Part("", ()))
        elif _is_joint(token):
            parts.append(Part(token, ()))
        else:
            parts[-1] = Part(parts[-1].joint, (*parts[-1].concepts, token))
    is_motion = any(token in MOTION for token in tokens[:2])
    said = [Part(part.joint, _counted(_turned(part.concepts))) for part in parts]
    return Meaning(_resolved([Part(part.joint, _unlight(part.concepts)) for part in said]), is_motion)


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
    return _EXTRA.sub(r"\3 \1 \2", folded)  # `it takes time to cook` is `to cook takes time`


def _in_order(text: str) -> list[str]:
    """Returns the words, with `bones are dropped by skeletons` turned into `skeletons dropped bones`."""
    words = [each.rstrip(",").replace(",", "") if any(map(str.isdigit, each)) else each for each in _TOKEN.findall(text)]
    for place in range(1, len(words) - 1):
        done = words[place + 1]
        if words[place] not in _BE or not (done.endswith("ed") or done in _PARTICIPLES):
            continue
        begin = next((at + 1 for at in range(place - 1, -1, -1) if words[at] in _BREAKS), 0)
        subject, rest = words[begin:place], words[place + 2 :]
        denied = [each for each in subject if each in _DENIALS]
        agent: list[str] = []
        if rest[:1] == ["by"]:
            end = next((at for at, each in enumerate(rest[1:], 1) if each in _BREAKS), len(rest))
            agent, rest = rest[1:end], rest[end:]
        named = [each for each in subject if each not in denied]
        return [*words[:begin], *agent, *denied, done, *named, *rest]
    return words


def _tokens(words: Sequence[str]) -> Iterator[str]:
    """Yields concepts and joints for words, taking the longest phrase that is known at each place."""
    stems = [spelled(word) for word in words]
    place = 0
    while place < len(words):
        for size in range(min(_LONGEST_PHRASE, len(words) - place), 0, -1):
            found = _PHRASES.get(tuple(stems[place : place + size]))
            if found is not None:
                yield from found
                break
        else:
            size = 1
            yield _concept(words[place], stems[place])
        place += size


def _concept(word: str, stem: str) -> str:
    if word in _SIGNS:
        return _SIGNS[word]
    if word in lexicon.NUMBERS:
        return f"{NUMBER}{lexicon.NUMBERS[word]}"
    return f"{NUMBER}{word}" if word[-1].isdigit() else stem


@functools.lru_cache(maxsize=50_000)
def spelled(word: str) -> str:
    """Returns the stem of a word in one of the spellings that English has."""
    word = _IRREGULAR.get(word, word)
    if len(word) > 4 and word.isalpha():
        word = word.replace("our", "or").replace("isation", "ization")
        word = re.sub(r"is(e|ed|es|ing)$", r"iz\1", word) if len(word) > 6 else word
        word = re.sub(r"tre$", "ter", word).replace("grey", "gray")
        word = re.sub(r"(?<=[a-z]{3})(?:ly|ness)$", "", word) if len(word) > 6 else word
    return wording.stem(word)


def _is_joint(token: str) -> bool:
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
        else:
            found.append(concept)
    return tuple(found)


def _unlight(concepts: Sequence[str]) -> tuple[str, ...]:
    return tuple(each for each in concepts if each not in _LIGHT or each in _PRONOUNS)


def _read_phrases() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Returns what stands for a phrase, by its stems."""
    found: dict[tuple[str, ...], tuple[str, ...]] = {}
    for said, put in _table(lexicon.CONCEPTS):
        found[said] = (NEG, put[1:]) if put.startswith("-") else (put,)
    for said, put in _table(lexicon.JOINTS):
        found[said] = (put if put in JOINED else f"@{put}",)
    for phrase in re.split(r"[,\n]", lexicon.EMPTY.strip()):
        found[tuple(map(spelled, phrase.split()))] = ()
    return found


def _table(text: str) -> Iterator[tuple[tuple[str, ...], str]]:
    for line in text.strip().splitlines():
        put, _, phrases = line.partition(" = ")
        for phrase in phrases.split(", "):
            yield tuple(spelled(word) for word in phrase.split()), put


_IRREGULAR = {said: put for each in re.split(r"[,\n]\s*", lexicon.IRREGULAR.strip()) for said, put in [each.split()]}
_PARTICIPLES = frozenset(_IRREGULAR)
_PHRASES = _read_phrases()
_LONGEST_PHRASE = max(map(len, _PHRASES))
_LIGHT = frozenset(lexicon.LIGHT.split()) | {spelled(word) for word in lexicon.LIGHT.split()}

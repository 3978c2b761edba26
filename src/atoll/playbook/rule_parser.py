"""Parser of rules. A rule becomes clauses of concepts, with connectives, negations and numbers marked."""

import functools
import itertools
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll.playbook import english

NEGATION = "neg"
NUMBER_PREFIX = "#"
CONDITIONS = frozenset({"if", "unless", "until"})
CLAUSE_CONNECTIVES = frozenset({"before", "after", "during", "because", "so", "but", *CONDITIONS})
LOCATIVE = "@in"  # place and time; the position of such a clause does not matter
MAX_AMBIGUOUS = 3  # ambiguous words per text: at most 8 readings
MAX_CHARS = 4_000  # longer texts are cut
MOTION_VERBS = frozenset({"go", "turn"})

_TOKEN = re.compile(r"[-\u2212]?\d[\d,]*(?:\.\d+)*|[^\W\d_]+|[,;.:!?()<>=%$€&+*/]")
_CONTRACTIONS = (("can't", "can not"), ("cannot", "can not"), ("won't", "will not"), ("n't", " not"), ("'re", " are"))
_SIGN_NAMES = ("below", "above", "percent", "equal", "and", "plus", "times", "slash")
_SIGN_WORDS = dict(zip("<>%=&+*/", _SIGN_NAMES, strict=True))
_PUNCTUATION = frozenset(",;.:!?()")
_BE_FORMS = frozenset({"is", "are", "was", "were", "be", "been", "being"})
_NEGATIONS = frozenset({"not", "never"})
_PRONOUNS = frozenset({"it", "them"})
_ARTICLES = frozenset({"a", "an", "the", "this", "that", "these", "those", "your", "its", "their", "our", "my"})
_BREAK_WORDS = {"if", "when", "whenever", "before", "after", "until", "unless", "because", "that", "and"}
_CLAUSE_BREAKS = _PUNCTUATION | _BREAK_WORDS
_CHANGE_PARTICIPLES = frozenset({"divided", "multiplied", "increased", "decreased", "reduced", "raised", "lowered"})
_QUANTIFIERS = frozenset({"all", "some", "most", "only", "often", "sometimes", "rarely", "almost"})
_ADVERB_SUFFIX = re.compile(r"(?<=[a-z]{4})(?:li|ness)$")  # `separately` is `separate`; a stem ends in i for y
_WAIT_PATTERN = re.compile(r"\bwait (?:until|till) ([^,.;]+?) before ([^,.;]+)")
_EXTRAPOSITION = re.compile(r"\bit (is|takes|costs|needs|requires) ([^,.;]+?) to ([^,.;]+)")
_PURPOSE = r"to (?:get|find|obtain|calculate|compute|determine)"
_DEFINITION_PATTERNS = (  # `divide a by b to get c` and `to get c, divide a by b` are `c is a divided by b`
    re.compile(rf"\b(?P<how>divide|multiply) (?P<one>[^,.;]+?) by (?P<other>[^,.;]+?) {_PURPOSE} (?P<what>[^,.;]+)"),
    re.compile(rf"\b{_PURPOSE} (?P<what>[^,.;]+?), (?P<how>divide|multiply) (?P<one>[^,.;]+?) by (?P<other>[^,.;]+)"),
)


class Clause(NamedTuple):
    """Part of a sentence: its connective (empty for none) and its concepts in order."""

    connective: str
    concepts: tuple[str, ...]


@dataclass(frozen=True)
class ParsedRule:
    """One reading of a rule.

    Attributes:
        clauses: Clauses in order.
        is_motion: Whether the rule is about moving, so that a direction is essential.
    """

    clauses: tuple[Clause, ...]
    is_motion: bool = False

    @functools.cached_property
    def sequence(self) -> tuple[str, ...]:
        """All concepts in order, with the connectives that matter."""
        # The clause of a negation decides what is negated, so every connective matters.
        ignored = ("",) if any(NEGATION in clause.concepts for clause in self.clauses) else ("", LOCATIVE)
        return tuple(
            concept
            for clause in self.clauses
            for concept in (*([clause.connective] if clause.connective not in ignored else []), *clause.concepts)
        )

    @functools.cached_property
    def concept_counts(self) -> Counter[str]:
        """Concepts and connectives, without order."""
        return Counter(self.sequence)

    @functools.cached_property
    def clause_counts(self) -> Counter[Clause]:
        """Clauses without order, negations first in each, except beside quantifiers (`not all`, `all not`)."""
        return Counter(Clause(clause.connective, _move_negations_first(clause.concepts)) for clause in self.clauses)


def _move_negations_first(concepts: tuple[str, ...]) -> tuple[str, ...]:
    if NEGATION not in concepts or not _QUANTIFIERS.isdisjoint(concepts):
        return concepts
    return tuple(sorted(concepts, key=lambda concept: concept != NEGATION))


@functools.lru_cache(maxsize=4_096)
def parse_rule(text: str) -> tuple[ParsedRule, ...]:
    """Returns the readings of a text; more than one if it has ambiguous words."""
    tokens = list(_iter_tokens(_to_active_voice(_normalize(text))))
    ambiguous = [token for token in dict.fromkeys(tokens) if token in english.AMBIGUOUS][:MAX_AMBIGUOUS]
    readings = dict.fromkeys(
        _parse_tokens([replacement for token in tokens if (replacement := replacements.get(token, token))])
        for choice in itertools.product(*(english.AMBIGUOUS[token] for token in ambiguous))
        for replacements in [dict(zip(ambiguous, choice, strict=True))]
    )
    return tuple(readings)


def _parse_tokens(tokens: Sequence[str]) -> ParsedRule:
    clauses: list[Clause] = [Clause("", ())]
    for token, next_token in zip(tokens, [*tokens[1:], ""], strict=False):
        if token in _PUNCTUATION:
            clauses.append(Clause("", ()))
        elif token == "@for" and next_token.startswith(NUMBER_PREFIX):
            continue  # `lasts for 5 turns` is `lasts 5 turns`
        elif _is_connective(token):
            clauses.append(Clause(token, ()))
        else:
            clauses[-1] = Clause(clauses[-1].connective, (*clauses[-1].concepts, token))
    is_motion = any(token in MOTION_VERBS for token in tokens[:2])
    cleaned = ((name, _drop_fillers(_convert_to_seconds(_rewrite_of(concepts)))) for name, concepts in clauses)
    resolved = _resolve_pronouns([Clause(name, concepts) for name, concepts in cleaned if concepts])
    limited = _move_only(_drop_to(_rewrite_use_to(resolved)))
    # `when it storms` equals `in storms`: a condition of one word is a time or a place.
    names = (LOCATIVE if name == "if" and len(concepts) == 1 else name for name, concepts in limited)
    return ParsedRule(tuple(map(Clause, names, (concepts for _, concepts in limited))), is_motion)


def _rewrite_use_to(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """Writes `use a rope to climb` as `climb with a rope`."""
    purposes = [clause for clause in clauses if clause.connective == "@to"]
    for part in clauses:
        only_prefix = part.concepts[:1] if part.concepts[0] == "only" else ()
        verb, *objects = part.concepts[len(only_prefix) :] or ("",)
        if part.connective == "" and verb == "use" and objects and len(purposes) == 1:
            means = Clause("@with", (*only_prefix, *objects))
            replacements = {part: means, purposes[0]: Clause("", purposes[0].concepts)}
            return tuple(replacements.get(item, item) for item in clauses)
    return clauses


def _drop_to(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """Writes `reply to customers` as `answer customers`: after a single verb the connective has no meaning."""
    for first, second in itertools.pairwise(clauses):
        if first.connective == "" and second.connective == "@to" and len(_content_concepts(first)) == 1:
            joined = Clause("", (*first.concepts, *second.concepts))
            return tuple(joined if clause is first else clause for clause in clauses if clause is not second)
    return clauses


def _move_only(clauses: tuple[Clause, ...]) -> tuple[Clause, ...]:
    """Moves an `only` to the words that it limits: `fish in calm water only` is `fish only in calm water`."""
    result = list(clauses)
    for index, clause in enumerate(result):
        if "only" not in (clause.concepts[0], clause.concepts[-1]) or len(clause.concepts) < 2:
            continue
        remaining = clause.concepts[1:] if clause.concepts[0] == "only" else clause.concepts[:-1]
        conditions = (i for i, other in enumerate(result) if other.connective in CONDITIONS and i != index)
        target = index + 1 if clause.concepts[-1] == "only" else next(conditions, index)
        target = target if target < len(result) and result[target].connective else index
        result[index] = Clause(clause.connective, remaining)
        result[target] = Clause(result[target].connective, ("only", *result[target].concepts))
        break
    return tuple(result)


def _resolve_pronouns(clauses: Sequence[Clause]) -> tuple[Clause, ...]:
    """Replaces `it`, also an omitted one, by the topic: `cook meat before eating (it)` is about eating meat."""
    result: list[Clause] = []
    for index, clause in enumerate(clauses):
        neighbors = (*clauses[:index][::-1], *clauses[index + 1 :])
        others = [other for other in neighbors if len(_content_concepts(other)) > 1]
        topic = _content_concepts(others[0])[1:] if others else ()
        resolved = (topic if concept in _PRONOUNS else (concept,) for concept in clause.concepts)
        concepts = tuple(itertools.chain.from_iterable(resolved))
        if clause.connective in ("before", "after") and len(clause.concepts) == 1:
            concepts = (*concepts, *topic)
        if concepts:
            result.append(Clause(clause.connective, concepts))
    return tuple(result)


def _content_concepts(clause: Clause) -> tuple[str, ...]:
    return tuple(concept for concept in clause.concepts if concept not in _PRONOUNS and concept != NEGATION)


def _normalize(text: str) -> str:
    folded = unicodedata.normalize("NFKC", text[:MAX_CHARS]).casefold().replace("\u2019", "'").replace("\u2212", "-")
    for short, long in _CONTRACTIONS:
        folded = folded.replace(short, long)
    folded = re.sub(r"(?<=\w)'s\b", " is" if folded.startswith("it's") else "", folded).replace("'", "")
    folded = _WAIT_PATTERN.sub(r"do not \2 until \1", folded)
    for pattern in _DEFINITION_PATTERNS:
        folded = pattern.sub(_to_definition, folded)
    return _EXTRAPOSITION.sub(r"\3 \1 \2", folded)  # `it takes time to cook` is `to cook takes time`


def _to_definition(match: re.Match[str]) -> str:
    participle = "divided" if match["how"] == "divide" else "multiplied"
    return f"{match['what']} is {match['one']} {participle} by {match['other']}"


def _to_active_voice(text: str) -> list[str]:
    """Returns the words, with `bones are dropped by skeletons` turned into `skeletons dropped bones`."""
    words = [
        word.rstrip(",").replace(",", "") if any(map(str.isdigit, word)) else word for word in _TOKEN.findall(text)
    ]
    for index in range(1, len(words) - 1):
        participle = words[index + 1]
        if words[index] not in _BE_FORMS or not (participle.endswith("ed") or participle in _PARTICIPLES):
            continue
        begin = next((position + 1 for position in range(index - 1, -1, -1) if words[position] in _CLAUSE_BREAKS), 0)
        subject, following = words[begin:index], words[index + 2 :]
        negations = [word for word in subject if word in _NEGATIONS]
        agent: list[str] = []
        if following[:1] == ["by"] and participle not in _CHANGE_PARTICIPLES:
            breaks = (position for position, word in enumerate(following[1:], 1) if word in _CLAUSE_BREAKS)
            end = next(breaks, len(following))
            agent, following = following[1:end], following[end:]
        subject_words = [word for word in subject if word not in negations]
        return [*words[:begin], *agent, *negations, participle, *subject_words, *following]
    return words


def _iter_tokens(words: Sequence[str]) -> Iterator[str]:
    """Yields concepts and connectives, matching the longest known phrase at each position."""
    normalized = ["with" if _is_means(words, index) else word for index, word in enumerate(words)]
    stems = [stem_word(word) for word in normalized]
    position = 0
    while position < len(words):
        concepts, size = _match_phrase(normalized, stems, position)
        position += size
        if len(concepts) == 1 and concepts[0].startswith("@") and _is_end(normalized, stems, position):
            yield normalized[position - 1]  # `turn it off`: nothing follows that it could connect
        else:
            yield from concepts


def _match_phrase(words: Sequence[str], stems: Sequence[str], index: int) -> tuple[tuple[str, ...], int]:
    for size in range(min(_MAX_PHRASE_WORDS, len(words) - index), 0, -1):
        for forms in (words, stems):  # `units` and `unite` have the same stem but differ as words
            concepts = _PHRASES.get(tuple(forms[index : index + size]))
            if concepts is not None:
                return concepts, size
    return (_get_concept(words[index], stems[index]),), 1


def _is_end(words: Sequence[str], stems: Sequence[str], index: int) -> bool:
    if index == len(words) or words[index] in _PUNCTUATION:
        return True
    return _is_connective(_match_phrase(words, stems, index)[0][:1])


def _is_means(words: Sequence[str], index: int) -> bool:
    """Tells `climb using a rope` from `before using a rope`."""
    return words[index] == "using" and index > 0 and words[index - 1] not in _CLAUSE_BREAKS | {"by"}


def _get_concept(word: str, stem: str) -> str:
    if word in _SIGN_WORDS:
        return _SIGN_WORDS[word]
    if word in english.NUMBER_WORDS:
        return f"{NUMBER_PREFIX}{english.NUMBER_WORDS[word]}"
    return f"{NUMBER_PREFIX}{word}" if word[-1].isdigit() else _ADVERB_SUFFIX.sub("", stem)


@functools.lru_cache(maxsize=8_192)
def stem_word(word: str) -> str:
    """Returns the stem of a word in American spelling."""
    word = english.IRREGULAR_FORMS.get(word, word)
    if len(word) > 4 and word.isalpha():
        word = word.replace("our", "or").replace("isation", "ization")
        word = re.sub(r"is(e|ed|es|ing)$", r"iz\1", word) if len(word) > 6 else word
        word = re.sub(r"tre$", "ter", word).replace("grey", "gray")
    return english.stem(word)


def _is_connective(token: str | tuple[str, ...]) -> bool:
    if isinstance(token, tuple):
        return bool(token) and _is_connective(token[0])
    return token in _PUNCTUATION or token.startswith("@") or token in CLAUSE_CONNECTIVES


def _rewrite_of(concepts: tuple[str, ...]) -> tuple[str, ...]:
    """Writes `time of the meeting` as `meeting time`."""
    result: list[str] = []
    heads: list[str] = []
    for concept in concepts:
        if concept == "of":
            heads += [result.pop()] if result and result[-1] != NEGATION else []
        elif concept in _ARTICLES:
            continue
        else:
            result += [concept, *reversed(heads)]
            heads = []
    return (*result, *reversed(heads))


def _convert_to_seconds(concepts: Sequence[str]) -> tuple[str, ...]:
    """Writes times in seconds: an hour is 60 minutes."""
    result: list[str] = []
    for concept in concepts:
        seconds = english.SECONDS_PER_UNIT.get(concept)
        amount = result[-1][1:] if result and result[-1].startswith(NUMBER_PREFIX) else ""
        if seconds is not None and re.fullmatch(r"\d+(\.\d+)?", amount):
            result[-1] = f"{NUMBER_PREFIX}{float(amount) * seconds:.12g} s"
        elif concept != "time" or not amount:  # `two times` is `twice`
            result.append(concept)
    return tuple(result)


def _drop_fillers(concepts: Sequence[str]) -> tuple[str, ...]:
    return tuple(concept for concept in concepts if concept not in _FILLERS or concept in _PRONOUNS)


def _read_phrases() -> Mapping[tuple[str, ...], tuple[str, ...]]:
    """Returns the concepts of each phrase, by its words and by their stems."""
    result: dict[tuple[str, ...], tuple[str, ...]] = {}
    for name, phrases in english.CONCEPTS.items():
        result |= _map_forms(phrases, (NEGATION, name[1:]) if name.startswith("-") else (name,))
    for name, phrases in english.CONNECTIVES.items():
        result |= _map_forms(phrases, (name if name in CLAUSE_CONNECTIVES else f"@{name}",))
    return result | _map_forms(english.EMPTY_PHRASES, ())


def _map_forms(phrases: Sequence[str], concepts: tuple[str, ...]) -> dict[tuple[str, ...], tuple[str, ...]]:
    split_phrases = [tuple(phrase.split()) for phrase in phrases]
    return dict.fromkeys([tuple(map(stem_word, phrase)) for phrase in split_phrases] + split_phrases, concepts)


_UNCHANGED_PARTICIPLES = {"set", "put", "cut", "read", "hurt", "hit", "shut", "split", "spread"}
_PARTICIPLES = _UNCHANGED_PARTICIPLES.union(english.IRREGULAR_FORMS)
_PHRASES = _read_phrases()
_MAX_PHRASE_WORDS = max(map(len, _PHRASES))
_FILLERS = frozenset(form for word in english.FILLER_WORDS for form in (word, _get_concept(word, stem_word(word))))

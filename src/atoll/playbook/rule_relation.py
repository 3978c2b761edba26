"""Relation of two rules: duplicate, contradiction, variant or different.

A wrong merge loses information; a missed duplicate only costs tokens. So rules are duplicates only if everything
matches, word for word or by the lexicon: negations, numbers, units, directions, and who does what to whom. An unknown
different word makes them different.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Literal

from atoll.playbook import english
from atoll.playbook.rule_parser import CONDITIONS, NEGATION, NUMBER_PREFIX, Clause, ParsedRule, parse_rule, stem_word

type Relation = Literal["same", "duplicate", "contradiction", "variant", "different"]


@functools.lru_cache(maxsize=4_096)
def relate(first: str, second: str) -> Relation:
    """Returns the relation of two rules.

    Returns:
        same: Equal except for case, width, punctuation and white space.
        duplicate: Same meaning in other words.
        contradiction: One negates the other, or states the opposite.
        variant: Equal except for numbers, place or time.
        different: Anything else.
    """
    symbols, other_symbols = _extract_symbols(first), _extract_symbols(second)
    if english.normalize_words(first) == english.normalize_words(second) and symbols == other_symbols:
        return "same"
    if set(symbols) - _PARSED_SYMBOLS != set(other_symbols) - _PARSED_SYMBOLS:
        return "different"
    if {_get_mood(first), _get_mood(second)} == {"may", "must"}:
        return "different"
    best: Relation = "different"
    for first_rule, second_rule in itertools.product(parse_rule(first), parse_rule(second)):
        best = min(best, _relate_rules(first_rule, second_rule), key=_RELATION_ORDER.index)
        if best == "duplicate":
            break
    return best


_PARSED_SYMBOLS = frozenset("<>%&+*/$€-")  # symbols that the parser turns into concepts
_PERMISSION_WORDS = frozenset({"can", "could", "may", "might"})
_OBLIGATION_WORDS = frozenset({"must", "shall", "should", "always"})
_NEGATION_WORDS = frozenset({"not", "never", "no", "cannot", "cant", "dont"})
_RELATION_ORDER: list[Relation] = ["same", "duplicate", "contradiction", "variant", "different"]


def _relate_rules(first: ParsedRule, second: ParsedRule) -> Relation:
    concepts, other_concepts = first.concept_counts.keys(), second.concept_counts.keys()
    if not concepts or not other_concepts or any(map(_is_distinguishing, concepts ^ other_concepts)):
        return "different"
    if _have_same_meaning(first, second):
        return "duplicate"
    if _have_same_meaning(_remove_concept(first, NEGATION), _remove_concept(second, NEGATION)):
        return "contradiction" if (_count_negations(first) - _count_negations(second)) % 2 else "different"
    for changed, is_compatible in _iter_opposites(first, second):
        if _have_same_meaning(changed, second):
            return "variant" if is_compatible else "contradiction"
    return "variant" if _have_same_meaning(_mask_numbers(first), _mask_numbers(second)) else "different"


def preserves_details(text: str, other: str) -> bool:
    """Returns whether a text has every number and negation of the other."""
    text_counts, other_counts = parse_rule(text)[0].concept_counts, parse_rule(other)[0].concept_counts
    return all(
        text_counts[concept] >= count
        for concept, count in other_counts.items()
        if concept == NEGATION or concept.startswith(NUMBER_PREFIX)
    )


def _is_distinguishing(concept: str) -> bool:
    """Returns whether two rules are different if only one has this concept."""
    return concept != NEGATION and concept[0] not in f"{NUMBER_PREFIX}@" and concept not in _OPPOSITES


def _have_same_meaning(first: ParsedRule, second: ParsedRule) -> bool:
    """Returns whether two rules have the same clauses in any order, or the same sequence rotated."""
    if first.clause_counts == second.clause_counts:
        return True
    first_sequence, second_sequence = first.sequence, second.sequence
    if len(first_sequence) != len(second_sequence) or first.concept_counts != second.concept_counts:
        return False
    if len(first_sequence) == 2 and NEGATION not in first_sequence:
        return False  # `spiders are insects` is not `insects are spiders`
    shifts = range(len(first_sequence))
    return any(first_sequence[shift:] + first_sequence[:shift] == second_sequence for shift in shifts)


def _count_negations(rule: ParsedRule) -> int:
    return sum(clause.concepts.count(NEGATION) for clause in rule.clauses)


def _replace_concepts(rule: ParsedRule, table: Mapping[str, str]) -> ParsedRule:
    clauses = (
        Clause(
            table.get(clause.connective, clause.connective),
            tuple(replacement for concept in clause.concepts if (replacement := table.get(concept, concept))),
        )
        for clause in rule.clauses
    )
    return ParsedRule(tuple(clause for clause in clauses if clause.concepts), rule.is_motion)


def _remove_concept(rule: ParsedRule, concept: str) -> ParsedRule:
    return _replace_concepts(rule, {concept: ""})


def _mask_numbers(rule: ParsedRule) -> ParsedRule:
    numbers = (concept for concept in rule.sequence if concept.startswith(NUMBER_PREFIX))
    return _replace_concepts(rule, dict.fromkeys(numbers, NUMBER_PREFIX))


def _iter_opposites(first: ParsedRule, second: ParsedRule) -> Iterator[tuple[ParsedRule, bool]]:
    """Yields the first rule with one concept replaced by its opposite, and whether both could be true."""
    second_concepts = set(second.sequence)
    for clause_index, clause in enumerate(first.clauses):
        for index, concept in enumerate((clause.connective, *clause.concepts)):
            for opposite in _OPPOSITES.get(concept, frozenset()) & second_concepts:
                words = [clause.connective, *clause.concepts]
                words[index] = opposite
                changed = Clause(words[0], tuple(words[1:]))
                is_compatible = clause.connective in CONDITIONS or (concept in _LOCATIONS and not first.is_motion)
                clauses = (*first.clauses[:clause_index], changed, *first.clauses[clause_index + 1 :])
                yield ParsedRule(clauses, first.is_motion), is_compatible


def _get_mood(text: str) -> str:
    """Returns `may` or `must`; empty for neither and for negated rules, since `cannot` is `must not`."""
    words = set(english.normalize_words(text).split())
    if words & _NEGATION_WORDS or (words & _PERMISSION_WORDS and words & _OBLIGATION_WORDS):
        return ""
    return "may" if words & _PERMISSION_WORDS else "must" if words & _OBLIGATION_WORDS else ""


@functools.lru_cache(maxsize=4_096)
def _extract_symbols(text: str) -> tuple[str, ...]:
    """Returns symbols, which are not words: `x < 5` and `x > 5` have the same words."""
    folded = unicodedata.normalize("NFKC", text)
    symbols = [char for char in folded if unicodedata.category(char)[0] == "S" or char in "%&@#*/\\"]
    return (*symbols, *re.findall(r"!=|(?<!\w)-(?=\d)", folded))


def _read_opposites() -> Mapping[str, frozenset[str]]:
    opposites: dict[str, set[str]] = {}
    for pair in english.OPPOSITES:
        first, second = map(_get_concept, pair)
        opposites.setdefault(first, set()).add(second)
        opposites.setdefault(second, set()).add(first)
    return {name: frozenset(others) for name, others in opposites.items()}


def _get_concept(word: str) -> str:
    """Returns the concept of a lexicon word: itself, or the concept that it is parsed to."""
    if word in english.CONCEPTS:
        return word
    concepts = parse_rule(word)[0].sequence
    return concepts[0] if len(concepts) == 1 else stem_word(word)


_OPPOSITES = _read_opposites()
_LOCATIONS = frozenset(map(_get_concept, english.LOCATIONS))

"""Rejects duplicates before their evaluation.

A prefilter decides from the proposal alone, so timing and resume do not matter. It compares with the parents and the
inspirations, and reads the tags of `DuplicateTagger` about the rest of the run. Identical texts cost nothing anyway:
the evolver caches evaluations by content.
"""

import hashlib
import re
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random
from types import CodeType
from typing import NamedTuple

from atoll import function, gate, mutation
from atoll.candidate import JSON, Candidate

_WORD = re.compile(r"\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|\w+|[^\w\s]")
_NUMBER_OR_OPERATOR = re.compile(r"(?<![\w.])(?:\d[\w.]*|\.\d\w*)|[-+*/%=<>!&|^~@]+")
DUPLICATE_KEY = "repeats"  # in a child's `meta`: description of the duplicate
NOTES_KEY = "notes_on_run"  # in the meta of a copy of the best program that carries notes
_SHINGLE_SIZE = 5  # tokens


@dataclass(frozen=True, slots=True)
class NoveltyFilter:
    """A prefilter that rejects programs equal to a known candidate.

    First by a hash of the normalized program: Python without docstrings, comments, layout and local names; other
    languages by their words. Then by shingles of tokens, if numbers and operators are equal: a changed constant or
    comparison is always a new program.

    Attributes:
        is_python: The programs are Python.
        threshold: Shingle similarity (Jaccard) from which on programs count as equal. Values below 1 may reject a good
            idea in a long program.
    """

    is_python: bool = True
    threshold: float = 1.0

    def __call__(self, proposal: gate.Proposal) -> gate.Decision:
        text = proposal.candidate.content
        if NOTES_KEY in proposal.candidate.meta:
            return gate.Decision("reject", "it carries notes on the run", "novelty")
        for other in proposal.known_candidates:
            if hash_program(text, self.is_python) == hash_program(other.content, self.is_python):
                return gate.Decision("reject", f"it repeats {other.id} in other words", "novelty")
            if self.threshold <= 1 and hash_operators(text) == hash_operators(other.content):
                score = compute_similarity(text, other.content)
                if score >= self.threshold:
                    return gate.Decision("reject", f"it is {score:.1%} the same as {other.id}", "novelty")
        if duplicate_note := proposal.candidate.meta.get(DUPLICATE_KEY):
            return gate.Decision("reject", str(duplicate_note), "novelty")
        return gate.Decision("accept", "it is new", "novelty")


def compute_similarity(text: str, other_text: str) -> float:
    """Returns the share of shingles that two texts have in common."""
    shingles, other_shingles = get_shingles(text), get_shingles(other_text)
    return len(shingles & other_shingles) / len(shingles | other_shingles)


# The same candidates are compared again and again; the caches only save time.
@lru_cache(maxsize=256)
def get_shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Returns all sequences of adjacent tokens of a fixed length."""
    tokens = _WORD.findall(text)
    return frozenset(
        tuple(tokens[start : start + _SHINGLE_SIZE]) for start in range(max(1, len(tokens) - _SHINGLE_SIZE + 1))
    )


@lru_cache(maxsize=1024)
def hash_operators(text: str) -> bytes:
    """Returns a hash of the numbers and operators of a text with their counts."""
    return _hash(repr(sorted(Counter(_NUMBER_OR_OPERATOR.findall(text)).items())))


@lru_cache(maxsize=1024)
def hash_program(text: str, is_python: bool) -> bytes:
    """Returns the hash of a normalized program."""
    code = mutation.compile_python(text) if is_python else None
    return _hash(" ".join(_WORD.findall(text)) if code is None else "\n".join(_iter_code_facts(code)))


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).digest()


def _iter_code_facts(code: CodeType) -> Iterator[str]:
    """Yields the content of a code object: local names by position, other names as they are."""
    num_parameters = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
    yield f"{code.co_code.hex()} {code.co_flags} {code.co_argcount} {code.co_posonlyargcount} {code.co_kwonlyargcount}"
    yield repr((code.co_name, code.co_names, code.co_varnames[:num_parameters], code.co_exceptiontable))
    if "locals" in code.co_names or "vars" in code.co_names or "eval" in code.co_names or "exec" in code.co_names:
        yield repr(code.co_varnames)  # here local names matter
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _iter_code_facts(constant)
        elif isinstance(constant, frozenset):
            yield f"frozenset {sorted(map(repr, constant))}"  # the order of a frozenset varies between processes
        else:
            yield f"{type(constant).__name__} {constant!r}"


_MAX_SIMILAR = 8  # latest programs with equal numbers and operators to compare with


class _Entry(NamedTuple):
    applied_count: int  # iterations applied when it was added
    id: str
    content: str


class ProgramIndex:
    """An index of evaluated programs, with constant cost per iteration.

    Args:
        initial: The initial program.
        is_python: The programs are Python.
        threshold: As in `NoveltyFilter`.
    """

    def __init__(self, initial: str, *, is_python: bool = True, threshold: float = 1.0) -> None:
        self._is_python, self._threshold = is_python, threshold
        self._applied = 0
        self._by_hash = dict[bytes, _Entry]()
        self._by_marks = dict[bytes, deque[_Entry]]()
        self._add(_Entry(0, "0.0", initial))

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {}

    def learn(self, result: function.IterationResult) -> None:
        self._applied += 1
        for fn, _ in result.children:
            if fn.evaluation is not None and fn.candidate is not None:
                self._add(_Entry(self._applied, fn.candidate.id, fn.candidate.content))

    def _add(self, entry: _Entry) -> None:
        self._by_hash.setdefault(hash_program(entry.content, self._is_python), entry)
        if self._threshold <= 1:
            self._by_marks.setdefault(hash_operators(entry.content), deque(maxlen=_MAX_SIMILAR)).append(entry)

    def find_any_duplicate(self, text: str, context: function.ProposalContext) -> str:
        """Returns a description of an equal program that an iteration knows, an identical one included."""
        known = [*context.parents, *(fn for fns in context.inspirations.values() for fn in fns)]
        for candidate in (fn.candidate for fn in known if fn.candidate is not None):
            if hash_program(text, self._is_python) == hash_program(candidate.content, self._is_python):
                return f"it equals program {candidate.id}"
        entry = self._by_hash.get(hash_program(text, self._is_python))
        if entry and entry.applied_count <= context.applied_count:
            return f"it equals program {entry.id}"
        return self.find_duplicate(text, context.applied_count)

    def find_duplicate(self, text: str, applied_count: int) -> str:
        """Returns a description of an equal program of the first `applied_count` iterations; empty if none.

        An identical text is not a duplicate here: its evaluation is cached and costs nothing.
        """
        entry = self._by_hash.get(hash_program(text, self._is_python))
        if entry and entry.applied_count <= applied_count and entry.content != text:
            return f"it repeats {entry.id} in other words"
        for similar in tuple(self._by_marks.get(hash_operators(text), ())) if self._threshold <= 1 else ():
            if similar.applied_count <= applied_count and similar.content != text:
                similarity = compute_similarity(text, similar.content)
                if similarity >= self._threshold:
                    return f"it is {similarity:.1%} the same as {similar.id}"
        return ""


@dataclass(frozen=True, slots=True)
class DuplicateTagger:
    """A proposer that tags duplicates of earlier programs; the prefilter reads the tag.

    Attributes:
        proposer: Makes the children.
        index: Programs of the run; pass it to the evolver as a learner too.
    """

    proposer: function.Proposer
    index: ProgramIndex

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        return [self._tag_duplicate(child, context.applied_count) for child in self.proposer.propose(context)]

    def _tag_duplicate(self, child: function.Function, applied_count: int) -> function.Function:
        text = str(child.skeleton())
        duplicate_note = self.index.find_duplicate(text, applied_count)
        if not duplicate_note:
            return child
        candidate = child.candidate if child.candidate and not child.candidate.id else Candidate("", text)
        return child.with_evaluation(replace(candidate, meta={**candidate.meta, DUPLICATE_KEY: duplicate_note}))

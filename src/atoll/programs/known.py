"""All programs that a run has judged, so that none is judged again in other words.

An index that steps share would make them depend on timing. So it is a learner, taught in the order in which steps are
applied, and a step sees only what was applied when it was issued: a resume that teaches it again finds the same.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

from atoll import function
from atoll.candidate import JSON, Candidate
from atoll.programs import novelty

_MAX_SIMILAR = 8  # programs with the same numbers and operators that one is compared with, the latest


class _Entry(NamedTuple):
    applied_count: int  # steps that were applied when it came in
    id: str
    content: str


class ProgramIndex:
    """An index of what was judged; a step costs it the same whatever the length of the run.

    Args:
        start: What evolution begins with.
        is_python: Whether programs have a syntax tree.
        threshold: As that of `novelty.Novel`.
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
        self._by_hash.setdefault(novelty.hash_program(entry.content, self._is_python), entry)
        if self._threshold <= 1:
            self._by_marks.setdefault(novelty.hash_operators(entry.content), deque(maxlen=_MAX_SIMILAR)).append(entry)

    def find_duplicate(self, text: str, applied_count: int) -> str:
        """Says which of the first `seen` steps made that program, in other words; empty: none did.

        Word for word the same is no repetition: what it is worth is remembered, and costs nothing.
        """
        entry = self._by_hash.get(novelty.hash_program(text, self._is_python))
        if entry and entry.applied_count <= applied_count and entry.content != text:
            return f"it repeats {entry.id} in other words"
        for similar in tuple(self._by_marks.get(novelty.hash_operators(text), ())) if self._threshold <= 1 else ():
            if similar.applied_count <= applied_count and similar.content != text:
                similarity = novelty.compute_similarity(text, similar.content)
                if similarity >= self._threshold:
                    return f"it is {similarity:.1%} the same as {similar.id}"
        return ""


@dataclass(frozen=True, slots=True)
class DuplicateTagger:
    """A proposer whose children carry a note if the run has had them before; the screen reads it.

    Attributes:
        proposer: Proposes.
        known: What the run has had; hand it to the evolver's learner too.
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
        return child.with_evaluation(replace(candidate, meta={**candidate.meta, novelty.DUPLICATE_KEY: duplicate_note}))

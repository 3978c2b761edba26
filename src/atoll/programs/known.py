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

_MOST_ALIKE = 8  # programs with the same numbers and operators that one is compared with, the latest


class _Entry(NamedTuple):
    place: int  # steps that were applied when it came in
    id: str
    content: str


class Known:
    """An index of what was judged; a step costs it the same whatever the length of the run.

    Args:
        start: What evolution begins with.
        is_python: Whether programs have a syntax tree.
        threshold: As that of `novelty.Novel`.
    """

    def __init__(self, start: str, *, is_python: bool = True, threshold: float = 1.0) -> None:
        self._is_python, self._threshold = is_python, threshold
        self._applied = 0
        self._same = dict[bytes, _Entry]()
        self._alike = dict[bytes, deque[_Entry]]()
        self._take(_Entry(0, "0.0", start))

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        return {}

    def learn(self, outcome: function.Outcome) -> None:
        self._applied += 1
        for fn, _ in outcome.children:
            if fn.evaluation is not None and fn.candidate is not None:
                self._take(_Entry(self._applied, fn.candidate.id, fn.candidate.content))

    def _take(self, entry: _Entry) -> None:
        self._same.setdefault(novelty.digest_of(entry.content, self._is_python), entry)
        if self._threshold <= 1:
            self._alike.setdefault(novelty.marks_of(entry.content), deque(maxlen=_MOST_ALIKE)).append(entry)

    def find(self, text: str, seen: int) -> str:
        """Says which of the first `seen` steps made that program, in other words; empty: none did.

        Word for word the same is no repetition: what it is worth is remembered, and costs nothing.
        """
        found = self._same.get(novelty.digest_of(text, self._is_python))
        if found and found.place <= seen and found.content != text:
            return f"it repeats {found.id} in other words"
        for each in tuple(self._alike.get(novelty.marks_of(text), ())) if self._threshold <= 1 else ():
            if each.place <= seen and each.content != text:
                alike = novelty.similarity(text, each.content)
                if alike >= self._threshold:
                    return f"it is {alike:.1%} the same as {each.id}"
        return ""


@dataclass(frozen=True, slots=True)
class Noting:
    """A proposer whose children carry a note if the run has had them before; the screen reads it.

    Attributes:
        proposer: Proposes.
        known: What the run has had; hand it to the evolver's learner too.
    """

    proposer: function.Proposer
    known: Known

    def propose(self, task: function.Task) -> Sequence[function.Function]:
        return [self._noted(child, task.seen) for child in self.proposer.propose(task)]

    def _noted(self, child: function.Function, seen: int) -> function.Function:
        text = str(child.skeleton())
        said = self.known.find(text, seen)
        if not said:
            return child
        own = child.candidate if child.candidate and not child.candidate.id else Candidate("", text)
        return child.settle(replace(own, meta={**own.meta, novelty.NOTE: said}))

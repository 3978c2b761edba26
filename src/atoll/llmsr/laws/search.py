"""One batch of the search: variations of a law, fitted on few rows, the promising ones on more, the best on all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from atoll.llmsr.laws import dictionary, law, moves, projection
from atoll.llmsr.laws.domain import Domain

LARGEST = 70  # nodes
EXACT = 1e-29  # an error that only rounding leaves: nothing larger is worth a try
_NEARLY_EXACT, _FEW_NODES = 1e-24, 10  # the law itself may be a little larger than what comes so near
_SCREENED = (400, 1200, 4000)  # rows that candidates are tried on; more where few mislead
_MOST_CELLS = 40_000  # screened rows times variables: a dictionary has some hundred columns for every variable
_MISLED = 1.6  # by so much an error on all rows may exceed that on the screened ones
_MARGIN = 4.0  # an error this much above the front's may still come down
_CANCELLING = 30.0  # times the size of the target: terms this large live by cancelling each other
_MOST_CHILDREN = 3
_MEMORY = 50_000

type Front = Sequence[tuple[int, float]]  # (size, error) of laws that nothing smaller beats


@dataclass(frozen=True, slots=True)
class Parent:
    """A law to vary.

    Attributes:
        law: What it is.
        rung: On which of the sets of screened rows it was found.
        error: Its error on all rows.
        screened: Its error on the screened rows.
    """

    law: law.Law
    rung: int = 0
    error: float = math.inf
    screened: float = math.inf


class Search:
    """Varies laws for one set of rows; a function of what it is given, but for what it remembers to be fast."""

    def __init__(self, rows: projection.Rows, domain: Domain) -> None:
        self.rows, self.domain = rows, domain
        # Evenly along the target: a few hundred rows drawn blindly miss the rare large values that carry the variance.
        order = np.argsort(rows.target, kind="stable")
        most = min(len(rows), max(_SCREENED[0], _MOST_CELLS // len(rows.columns)))
        counts = sorted({min(count, most) for count in _SCREENED})
        self._rungs = [rows.at(order[np.linspace(0, len(rows) - 1, count).round().astype(np.intp)]) for count in counts]
        self._words: dict[int, dictionary.Dictionary] = {}
        self._memory: dict[tuple[law.Terms, int, int], projection.Fit | None] = {}
        self._most = _CANCELLING * math.sqrt(float(np.mean(rows.target**2)))
        self.num_fits = 0

    def batch(self, parent: Parent, other: law.Law, front: Front, rng: Random) -> Sequence[Parent]:
        """Returns laws that are worth keeping, fitted on all rows, best first.

        Args:
            parent: What is varied.
            other: What it may exchange terms with.
            front: Who must be beaten, or nearly so, at its size.
            rng: Draws the moves.
        """
        with np.errstate(all="ignore"):  # what overflows is no candidate, and nobody need hear of it
            return self._children(parent, other, front, rng)

    def _children(self, parent: Parent, other: law.Law, front: Front, rng: Random) -> Sequence[Parent]:
        rung, largest = self._rung(parent), _largest(front)
        found: dict[object, projection.Fit] = {}
        scene = moves.Scene(parent.law.terms, other.terms, self._rungs[rung], self._dictionary(rung), rng)
        for terms in moves.trials(scene, largest):
            made = self._tried(terms, rung, front)
            if made is not None:
                found.setdefault(law.shape_of(made.law.terms), made)
        best = sorted(found.values(), key=lambda each: _rise(each, front))[:_MOST_CHILDREN]
        return [child for each in best if (child := self._finished(each, rung, front)) is not None]

    def _rung(self, parent: Parent) -> int:
        is_misled = parent.error > _MISLED * parent.screened and parent.error > EXACT
        return min(parent.rung + is_misled, len(self._rungs) - 1)

    def _dictionary(self, rung: int) -> dictionary.Dictionary:
        if rung not in self._words:
            self._words[rung] = dictionary.Dictionary(self._rungs[rung], self.domain)
        return self._words[rung]

    def _tried(self, terms: law.Terms, rung: int, front: Front) -> projection.Fit | None:
        """Fits a structure on the screened rows; what is not telling becomes what it comes to and is fitted again."""
        made = self._fit(terms, rung, 6)
        if made is None:
            return None
        if not all(self.domain.is_telling(factor) for term in made.law.terms for factor in term):
            made = self._fit(self.domain.simplified(made.law.terms), rung, 6)
        if made is not None and _rise(made, front) < math.log(_MARGIN):
            made = self._fit(made.law.terms, rung, 25) or made
        return made if made is not None and self._is_sound(made.law, rung) else None

    def _fit(self, terms: law.Terms, rung: int, steps: int) -> projection.Fit | None:
        key = terms, rung, steps
        if key not in self._memory:
            if len(self._memory) >= _MEMORY:
                self._memory.clear()
            self.num_fits += 1
            tolerance = 1e-4 if steps < 10 else 1e-5
            self._memory[key] = projection.fit(terms, self._rungs[rung], steps=steps, tolerance=tolerance)
        return self._memory[key]

    def _is_sound(self, found: law.Law, rung: int) -> bool:
        """Says whether a law keeps to its domain and does not live by terms that cancel."""
        if not found.terms or not self.domain.accepts(found.terms):
            return False
        with np.errstate(all="ignore"):
            shares = law.design(found.terms, self._rungs[rung].columns) * np.array(found.coefficients)[:, None]
            return bool(np.sqrt((shares * shares).mean(axis=1)).max() < self._most)

    def _finished(self, made: projection.Fit, rung: int, front: Front) -> Parent | None:
        """Fits on all rows what the screened rows recommend."""
        if _rise(made, front) > math.log(_MARGIN):
            return None
        screened = self._rungs[rung]
        if len(screened) < len(self.rows):
            whole = projection.fit(made.law.terms, self.rows, steps=3, tolerance=1e-3)
            if whole is None or not self.domain.accepts(whole.law.terms):
                return None
            return Parent(whole.law, rung, whole.error, made.error)
        return Parent(made.law, rung, made.error, made.error)


def _largest(front: Front) -> int:
    """Returns the size up to which a better law may be hoped for."""
    exact = [size - 1 for size, error in front if error < EXACT]
    near = [size + _FEW_NODES for size, error in front if error < _NEARLY_EXACT]
    return min([*exact, *near, LARGEST])


def _rise(found: projection.Fit, front: Front) -> float:
    """Returns by how much a law lies above the front at its size, as the logarithm of the ratio."""
    size = found.law.size
    rival = min((error for other, error in front if other <= size), default=math.inf)
    return math.log(max(found.error, 1e-300) / max(rival, 1e-300)) if rival < math.inf else -math.inf

"""One batch of the search: variations of a law, fitted on few rows, the best of them on all."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np

from atoll.llmsr.laws import law, least_squares, moves, term_dictionary
from atoll.llmsr.laws.domain import Domain

MAX_SIZE = 70  # nodes
EXACT_ERROR = 1e-29  # rounding only: no larger law is worth trying
_NEAR_EXACT_ERROR, _EXTRA_NODES = 1e-24, 10  # the exact law may be a little larger than one with this error
_SCREENING_ROWS = (400, 1200, 4000)  # rows for screening; more if few rows mislead
_MAX_CELLS = 40_000  # screening rows times variables: the dictionary has hundreds of columns per variable
_MISLEADING_RATIO = 1.6  # of the error on all rows to the screening error: more is misleading
_MAX_EXCESS_RATIO = 4.0  # of an error to that of the front, which may still improve
_MAX_TERM_RATIO = 30.0  # times the size of the target: larger terms only cancel each other
_MAX_CHILDREN = 3
_CACHE_SIZE = 50_000

type Front = Sequence[tuple[int, float]]  # (size, error) of laws that no smaller law beats


@dataclass(frozen=True, slots=True)
class ScreenedLaw:
    """Law to vary.

    Attributes:
        law: The law.
        rung: Index of the set of screening rows on which it was found.
        error: Its error on all rows.
        screened_error: Its error on the screening rows.
    """

    law: law.Law
    rung: int = 0
    error: float = math.inf
    screened_error: float = math.inf


class Search:
    """Varies laws for one set of rows. Its only state is a cache."""

    def __init__(self, rows: least_squares.Rows, domain: Domain) -> None:
        self.rows, self.domain = rows, domain
        # Evenly along the target: random rows would miss the rare large values that make most of the variance.
        order = np.argsort(rows.target, kind="stable")
        max_rows = min(len(rows), max(_SCREENING_ROWS[0], _MAX_CELLS // len(rows.columns)))
        counts = sorted({min(count, max_rows) for count in _SCREENING_ROWS})
        self._rungs = [
            rows.select(order[np.linspace(0, len(rows) - 1, count).round().astype(np.intp)]) for count in counts
        ]
        self._dictionaries: dict[int, term_dictionary.TermDictionary] = {}
        self._fits: dict[tuple[law.Terms, int, int], least_squares.Fit | None] = {}
        self._max_term_scale = _MAX_TERM_RATIO * math.sqrt(float(np.mean(rows.target**2)))
        self.num_fits = 0

    def search_batch(self, parent: ScreenedLaw, other: law.Law, front: Front, rng: Random) -> Sequence[ScreenedLaw]:
        """Returns the best variants, fitted on all rows, best first.

        Args:
            parent: The law to vary.
            other: Another law, to exchange terms with.
            front: Laws to beat, or nearly, at their size.
            rng: Draws the moves.
        """
        with np.errstate(all="ignore"):  # an overflow only rejects the variant
            return self._find_children(parent, other, front, rng)

    def _find_children(self, parent: ScreenedLaw, other: law.Law, front: Front, rng: Random) -> Sequence[ScreenedLaw]:
        rung, max_size = self._choose_rung(parent), _compute_max_size(front)
        fits: dict[object, least_squares.Fit] = {}
        context = moves.MoveContext(parent.law.terms, other.terms, self._rungs[rung], self._get_dictionary(rung), rng)
        for terms in moves.propose_structures(context, max_size):
            fit = self._screen(terms, rung, front)
            if fit is not None:
                fits.setdefault(law.get_shape(fit.law.terms), fit)
        best = sorted(fits.values(), key=lambda fit: _compute_excess(fit, front))[:_MAX_CHILDREN]
        return [child for fit in best if (child := self._fit_all_rows(fit, rung, front)) is not None]

    def _choose_rung(self, parent: ScreenedLaw) -> int:
        is_misleading = parent.error > _MISLEADING_RATIO * parent.screened_error and parent.error > EXACT_ERROR
        return min(parent.rung + is_misleading, len(self._rungs) - 1)

    def _get_dictionary(self, rung: int) -> term_dictionary.TermDictionary:
        if rung not in self._dictionaries:
            self._dictionaries[rung] = term_dictionary.TermDictionary(self._rungs[rung], self.domain)
        return self._dictionaries[rung]

    def _screen(self, terms: law.Terms, rung: int, front: Front) -> least_squares.Fit | None:
        """Fits a structure on the screening rows, simplifies factors that are not identifiable, and fits again."""
        fit = self._fit(terms, rung, 6)
        if fit is None:
            return None
        if not all(self.domain.is_identifiable(factor) for term in fit.law.terms for factor in term):
            fit = self._fit(self.domain.simplify(fit.law.terms), rung, 6)
        if fit is not None and _compute_excess(fit, front) < math.log(_MAX_EXCESS_RATIO):
            fit = self._fit(fit.law.terms, rung, 25) or fit
        return fit if fit is not None and self._is_sound(fit.law, rung) else None

    def _fit(self, terms: law.Terms, rung: int, steps: int) -> least_squares.Fit | None:
        key = terms, rung, steps
        if key not in self._fits:
            if len(self._fits) >= _CACHE_SIZE:
                self._fits.clear()
            self.num_fits += 1
            tolerance = 1e-4 if steps < 10 else 1e-5
            self._fits[key] = least_squares.fit(terms, self._rungs[rung], steps=steps, tolerance=tolerance)
        return self._fits[key]

    def _is_sound(self, candidate_law: law.Law, rung: int) -> bool:
        """Returns whether a law stays in its domain and has no large terms that cancel."""
        if not candidate_law.terms or not self.domain.accepts(candidate_law.terms):
            return False
        with np.errstate(all="ignore"):
            matrix = law.build_design_matrix(candidate_law.terms, self._rungs[rung].columns)
            contributions = matrix * np.array(candidate_law.coefficients)[:, None]
            return bool(np.sqrt((contributions * contributions).mean(axis=1)).max() < self._max_term_scale)

    def _fit_all_rows(self, screened_fit: least_squares.Fit, rung: int, front: Front) -> ScreenedLaw | None:
        """Fits a screened law on all rows."""
        if _compute_excess(screened_fit, front) > math.log(_MAX_EXCESS_RATIO):
            return None
        screening_rows = self._rungs[rung]
        if len(screening_rows) < len(self.rows):
            full_fit = least_squares.fit(screened_fit.law.terms, self.rows, steps=3, tolerance=1e-3)
            if full_fit is None or not self.domain.accepts(full_fit.law.terms):
                return None
            return ScreenedLaw(full_fit.law, rung, full_fit.error, screened_fit.error)
        return ScreenedLaw(screened_fit.law, rung, screened_fit.error, screened_fit.error)


def _compute_max_size(front: Front) -> int:
    """Returns the maximal size of a law that may improve the front."""
    exact = [size - 1 for size, error in front if error < EXACT_ERROR]
    near_exact = [size + _EXTRA_NODES for size, error in front if error < _NEAR_EXACT_ERROR]
    return min([*exact, *near_exact, MAX_SIZE])


def _compute_excess(fit: least_squares.Fit, front: Front) -> float:
    """Returns the logarithm of the ratio of the error of a law to that of the front at its size."""
    return _compute_log_ratio(fit.law.size, fit.error, front)


def _compute_log_ratio(size: int, error: float, front: Front) -> float:
    front_error = min((front_error for front_size, front_error in front if front_size <= size), default=math.inf)
    return math.log(max(error, 1e-300) / max(front_error, 1e-300)) if front_error < math.inf else -math.inf


def is_near_front(size: int, error: float, front: Front) -> bool:
    """Returns whether an error is at most a few times that of the front at its size."""
    return _compute_log_ratio(size, error, front) < math.log(_MAX_EXCESS_RATIO)

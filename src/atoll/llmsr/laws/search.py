"""One batch of the search: moves vary the structure of a law, which is fitted on few rows, the best on all."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

import numpy as np

from atoll.llmsr.laws import law, least_squares, term_dictionary
from atoll.llmsr.laws import term_dictionary as laws_term_dictionary
from atoll.llmsr.laws.domain import Domain
from atoll.llmsr.laws.law import ABSOLUTE, Factor, Terms

_MAX_TERMS, _MAX_FACTORS, _MAX_STRUCTURES = 8, 6, 8
_TERMS_PER_GROUP, _PRODUCTS_PER_GROUP, _MAX_PURSUED_TERMS = 2, 3, 5
_FUNCTION_KINDS = [
    ("exp", 2.0),
    ("exp", ABSOLUTE),
    ("exp", 1.0),
    ("rec", 2.0),
    ("rec", 4.0),
    ("rec", ABSOLUTE),
    ("rec", 1.0),
]
_FUNCTION_KINDS += [("tanh", 1.0), ("sin", 1.0), ("cos", 1.0)]
_NEVER_SHIFTED = (("exp", 1.0), ("rec", 1.0), ("cos", 1.0))  # a shift would only change a coefficient or the wave


class MoveContext(NamedTuple):
    """Input of a move: a law, another law, the rows and the available terms."""

    terms: Terms
    other_terms: Terms
    rows: least_squares.Rows
    term_dictionary: laws_term_dictionary.TermDictionary
    rng: Random


type Move = Callable[[MoveContext], Iterator[Terms]]


def add_term(context: MoveContext) -> Iterator[Terms]:
    """Adds a term that explains most of the residual."""
    yield from _add_best_terms(context, context.terms)


def pursue(context: MoveContext) -> Iterator[Terms]:
    """Starts without terms, adds terms one by one and drops the least useful; half of the time only powers."""
    groups = context.term_dictionary.draw_terms(context.rng)[: 1 if context.rng.random() < 0.5 else None]
    with np.errstate(all="ignore"):
        yield from laws_term_dictionary.pursue(groups, context.rows.target, _MAX_PURSUED_TERMS)


def replace_term(context: MoveContext) -> Iterator[Terms]:
    """Replaces a term by one that explains most of the residual."""
    remaining_terms, _ = _drop_random_term(context)
    yield from _add_best_terms(context, remaining_terms)


def multiply_term(context: MoveContext) -> Iterator[Terms]:
    """Multiplies a term by a factor, or adds the product as a new term."""
    remaining_terms, term = _drop_random_term(context)
    yield from _iter_products(context, context.terms if context.rng.random() < 0.35 else remaining_terms, term)


def replace_factor(context: MoveContext) -> Iterator[Terms]:
    """Replaces a factor by another."""
    remaining_terms, term = _drop_random_term(context)
    if term:
        index = context.rng.randrange(len(term))
        yield from _iter_products(context, remaining_terms, term[:index] + term[index + 1 :])


def drop_term(context: MoveContext) -> Iterator[Terms]:
    """Removes each term in turn."""
    terms = context.terms
    if len(terms) > 1:
        yield from (terms[:index] + terms[index + 1 :] for index in range(len(terms)))


def drop_factor(context: MoveContext) -> Iterator[Terms]:
    """Removes each factor in turn."""
    for term_index, term in enumerate(context.terms):
        for index in range(len(term)):
            yield _replace_term_at(context.terms, term_index, term[:index] + term[index + 1 :])


def exchange_terms(context: MoveContext) -> Iterator[Terms]:
    """Adds terms of another law, or replaces a term by one of them."""
    remaining_terms, _ = _drop_random_term(context)
    for term in context.other_terms[:4]:
        yield (*remaining_terms, term)
        yield (*context.terms, term)


def vary_factors(context: MoveContext) -> Iterator[Terms]:
    """Changes powers or functions of the factors of a term and keeps its constants."""
    term_index = context.rng.randrange(len(context.terms))
    term = context.terms[term_index]
    for index, factor in enumerate(term):
        for variant in _iter_variants(factor, context.rng):
            yield _replace_term_at(context.terms, term_index, (*term[:index], variant, *term[index + 1 :]))


def shift_factors(context: MoveContext) -> Iterator[Terms]:
    """Shifts the factors of a term, or squares them."""
    term_index = context.rng.randrange(len(context.terms))
    term = context.terms[term_index]
    for index, factor in enumerate(term):
        for variant in _shift_factor(factor):
            yield _replace_term_at(context.terms, term_index, (*term[:index], variant, *term[index + 1 :]))


MOVES: dict[Move, int] = {
    add_term: 5,
    multiply_term: 4,
    replace_factor: 3,
    replace_term: 1,
    pursue: 1,
    drop_term: 1,
    drop_factor: 1,
    exchange_terms: 1,
    vary_factors: 1,
    shift_factors: 1,
}


_INITIAL_MOVES: Sequence[Move] = (add_term, pursue, pursue)


def propose_structures(context: MoveContext, max_size: int) -> list[Terms]:
    """Draws a move and returns its structures up to a size, each shape once."""
    move = (
        context.rng.choices(list(MOVES), list(MOVES.values()))[0]
        if context.terms
        else context.rng.choice(_INITIAL_MOVES)
    )
    structures: dict[object, Terms] = {}
    for proposed_terms in move(context):
        terms = law.merge_terms(proposed_terms)
        is_within_limits = len(terms) <= _MAX_TERMS and all(len(term) <= _MAX_FACTORS for term in terms)
        if is_within_limits and law.compute_size(terms) <= max_size:
            structures.setdefault(law.get_shape(terms), terms)
    return list(structures.values())[:_MAX_STRUCTURES]


def _drop_random_term(context: MoveContext) -> tuple[Terms, law.Term]:
    index = context.rng.randrange(len(context.terms))
    return context.terms[:index] + context.terms[index + 1 :], context.terms[index]


def _replace_term_at(terms: Terms, index: int, term: law.Term) -> Terms:
    return (*terms[:index], term, *terms[index + 1 :])


def _solve_terms(context: MoveContext, terms: Terms) -> tuple[bool, least_squares.Solution | None]:
    """Returns whether a sum can be solved, and its solution."""
    if not terms:
        return True, None
    with np.errstate(all="ignore"):
        solution = least_squares.solve(law.build_design_matrix(terms, context.rows.columns), context.rows.target)
    return solution is not None, solution


def _add_best_terms(context: MoveContext, terms: Terms) -> Iterator[Terms]:
    is_solved, solution = _solve_terms(context, terms)
    if is_solved:
        groups = context.term_dictionary.draw_terms(context.rng)
        for term in laws_term_dictionary.find_best_terms(groups, solution, context.rows.target, _TERMS_PER_GROUP):
            yield (*terms, term)


def _iter_products(context: MoveContext, terms: Terms, term: law.Term) -> Iterator[Terms]:
    is_solved, solution = _solve_terms(context, terms)
    if is_solved:
        with np.errstate(all="ignore"):
            values = law.compute_term_values(term, context.rows.columns)
            groups = context.term_dictionary.draw_products(context.rng, term, values)
        for product in laws_term_dictionary.find_best_terms(groups, solution, context.rows.target, _PRODUCTS_PER_GROUP):
            yield (*terms, product)


def _iter_variants(factor: Factor, rng: Random) -> Iterator[Factor]:
    if factor.fn == "pow" and factor.power >= 1:
        yield from (factor._replace(power=float(power)) for power in (1, 2, 3, 4) if power != factor.power)
    elif factor.fn not in ("pow", "ln", "abs"):
        if factor.is_shifted:
            yield factor._replace(is_shifted=False, theta=factor.theta[:1])
        for fn, power in rng.sample(_FUNCTION_KINDS, 4):
            if (fn, power) != (factor.fn, factor.power):
                sign = -1.0 if (fn == "exp") != (factor.fn == "exp") else 1.0
                theta = (sign * factor.theta[0], *factor.theta[1:])
                yield factor._replace(fn=fn, power=power, outer=1, theta=theta)


def _shift_factor(factor: Factor) -> Sequence[Factor]:
    variants: list[Factor] = []
    can_shift = factor.fn in ("sin", "tanh", "exp", "rec") and len(factor.variables) == 1
    if can_shift and not factor.is_shifted and (factor.fn, factor.power) not in _NEVER_SHIFTED:
        variants.append(factor._replace(is_shifted=True, theta=(factor.theta[0], 0.0)))
    if factor.fn in ("sin", "cos", "tanh"):
        variants.append(factor._replace(outer=3 - factor.outer))
    return variants


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
        context = MoveContext(parent.law.terms, other.terms, self._rungs[rung], self._get_dictionary(rung), rng)
        for terms in propose_structures(context, max_size):
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

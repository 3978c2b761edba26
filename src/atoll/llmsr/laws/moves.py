"""Moves: variations of the structure of a law, given its residual."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from atoll.llmsr.laws import law, least_squares
from atoll.llmsr.laws import term_dictionary as laws_term_dictionary
from atoll.llmsr.laws.factor import ABSOLUTE, Factor
from atoll.llmsr.laws.law import Terms

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

"""Variations of a law: which structures to try next, given what a law leaves unexplained."""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import NamedTuple

import numpy as np

from atoll.llmsr.laws import dictionary, law, projection
from atoll.llmsr.laws.factor import ABSOLUTE, Factor
from atoll.llmsr.laws.law import Terms

_MOST_TERMS, _MOST_FACTORS, _MOST_TRIALS = 8, 6, 8
_PER_STRATUM, _PER_PRODUCT, _MOST_PURSUED = 2, 3, 5
_KINDS = [("exp", 2.0), ("exp", ABSOLUTE), ("exp", 1.0), ("rec", 2.0), ("rec", 4.0), ("rec", ABSOLUTE), ("rec", 1.0)]
_KINDS += [("tanh", 1.0), ("sin", 1.0), ("cos", 1.0)]
_UNSHIFTED = (("exp", 1.0), ("rec", 1.0), ("cos", 1.0))  # here a shift is only another coefficient or wave


class Scene(NamedTuple):
    """What a move may look at: a law, another one, the rows and the terms at hand."""

    terms: Terms
    other: Terms
    rows: projection.Rows
    words: dictionary.Dictionary
    rng: Random


type Move = Callable[[Scene], Iterator[Terms]]


def add_term(scene: Scene) -> Iterator[Terms]:
    """Adds what explains most of the rest."""
    yield from _completed(scene, scene.terms)


def pursue(scene: Scene) -> Iterator[Terms]:
    """Begins anew: collects terms one by one and drops the idlest again; half of the time from powers alone."""
    strata = scene.words.terms(scene.rng)[: 1 if scene.rng.random() < 0.5 else None]
    with np.errstate(all="ignore"):
        yield from dictionary.pursue(strata, scene.rows.target, _MOST_PURSUED)


def replace_term(scene: Scene) -> Iterator[Terms]:
    """Takes a term away and adds what explains most of the rest."""
    rest, _ = _without(scene)
    yield from _completed(scene, rest)


def multiply_term(scene: Scene) -> Iterator[Terms]:
    """Multiplies a term by a factor, or adds the product beside it."""
    rest, term = _without(scene)
    yield from _multiplied(scene, scene.terms if scene.rng.random() < 0.35 else rest, term)


def replace_factor(scene: Scene) -> Iterator[Terms]:
    """Puts another factor in the place of one."""
    rest, term = _without(scene)
    if term:
        place = scene.rng.randrange(len(term))
        yield from _multiplied(scene, rest, term[:place] + term[place + 1 :])


def drop_term(scene: Scene) -> Iterator[Terms]:
    """Leaves out each term in turn."""
    terms = scene.terms
    if len(terms) > 1:
        yield from (terms[:place] + terms[place + 1 :] for place in range(len(terms)))


def drop_factor(scene: Scene) -> Iterator[Terms]:
    """Leaves out each factor in turn."""
    for place, term in enumerate(scene.terms):
        for index in range(len(term)):
            yield _with(scene.terms, place, term[:index] + term[index + 1 :])


def exchange_terms(scene: Scene) -> Iterator[Terms]:
    """Takes in terms of another law, beside its own and in the place of one."""
    rest, _ = _without(scene)
    for term in scene.other[:4]:
        yield (*rest, term)
        yield (*scene.terms, term)


def vary_factors(scene: Scene) -> Iterator[Terms]:
    """Gives the factors of a term other powers or functions, its constants kept."""
    place = scene.rng.randrange(len(scene.terms))
    term = scene.terms[place]
    for index, factor in enumerate(term):
        for varied in _variants(factor, scene.rng):
            yield _with(scene.terms, place, (*term[:index], varied, *term[index + 1 :]))


def shift_factors(scene: Scene) -> Iterator[Terms]:
    """Moves the factors of a term to a place of their own, or squares them."""
    place = scene.rng.randrange(len(scene.terms))
    term = scene.terms[place]
    for index, factor in enumerate(term):
        for varied in _shifted(factor):
            yield _with(scene.terms, place, (*term[:index], varied, *term[index + 1 :]))


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


_BEGINNINGS: Sequence[Move] = (add_term, pursue, pursue)


def trials(scene: Scene, largest: int) -> list[Terms]:
    """Draws a move and returns the structures that it gives, up to a size; never two of one shape."""
    choice = scene.rng.choices(list(MOVES), list(MOVES.values()))[0] if scene.terms else scene.rng.choice(_BEGINNINGS)
    found: dict[object, Terms] = {}
    for made in choice(scene):
        terms = law.merged(made)
        fits = len(terms) <= _MOST_TERMS and all(len(term) <= _MOST_FACTORS for term in terms)
        if fits and law.size_of(terms) <= largest:
            found.setdefault(law.shape_of(terms), terms)
    return list(found.values())[:_MOST_TRIALS]


def _without(scene: Scene) -> tuple[Terms, law.Term]:
    place = scene.rng.randrange(len(scene.terms))
    return scene.terms[:place] + scene.terms[place + 1 :], scene.terms[place]


def _with(terms: Terms, place: int, term: law.Term) -> Terms:
    return (*terms[:place], term, *terms[place + 1 :])


def _solved(scene: Scene, terms: Terms) -> tuple[bool, projection.Solution | None]:
    """Returns what a sum leaves, and whether it could be solved at all."""
    if not terms:
        return True, None
    with np.errstate(all="ignore"):
        solution = projection.solve(law.design(terms, scene.rows.columns), scene.rows.target)
    return solution is not None, solution


def _completed(scene: Scene, terms: Terms) -> Iterator[Terms]:
    is_solved, solution = _solved(scene, terms)
    if is_solved:
        strata = scene.words.terms(scene.rng)
        for term in dictionary.best(strata, solution, scene.rows.target, _PER_STRATUM):
            yield (*terms, term)


def _multiplied(scene: Scene, terms: Terms, term: law.Term) -> Iterator[Terms]:
    is_solved, solution = _solved(scene, terms)
    if is_solved:
        with np.errstate(all="ignore"):
            strata = scene.words.multiples(scene.rng, term, law.values_of_term(term, scene.rows.columns))
        for product in dictionary.best(strata, solution, scene.rows.target, _PER_PRODUCT):
            yield (*terms, product)


def _variants(factor: Factor, rng: Random) -> Iterator[Factor]:
    if factor.fn == "pow" and factor.power >= 1:
        yield from (factor._replace(power=float(power)) for power in (1, 2, 3, 4) if power != factor.power)
    elif factor.fn not in ("pow", "ln", "abs"):
        if factor.is_shifted:
            yield factor._replace(is_shifted=False, theta=factor.theta[:1])
        for fn, power in rng.sample(_KINDS, 4):
            if (fn, power) != (factor.fn, factor.power):
                sign = -1.0 if (fn == "exp") != (factor.fn == "exp") else 1.0
                theta = (sign * factor.theta[0], *factor.theta[1:])
                yield factor._replace(fn=fn, power=power, outer=1, theta=theta)


def _shifted(factor: Factor) -> Sequence[Factor]:
    made: list[Factor] = []
    can_shift = factor.fn in ("sin", "tanh", "exp", "rec") and len(factor.variables) == 1
    if can_shift and not factor.is_shifted and (factor.fn, factor.power) not in _UNSHIFTED:
        made.append(factor._replace(is_shifted=True, theta=(factor.theta[0], 0.0)))
    if factor.fn in ("sin", "cos", "tanh"):
        made.append(factor._replace(outer=3 - factor.outer))
    return made

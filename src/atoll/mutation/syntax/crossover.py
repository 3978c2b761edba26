"""Expressions of one program for another."""

import ast
from random import Random

from atoll.mutation.syntax.kinds import fits, kind_of
from atoll.mutation.syntax.program import Program
from atoll.mutation.syntax.sites import Site
from atoll.mutation.syntax.trees import free_names
from atoll.mutation.syntax.words import BUILTINS, Names

_TRIES = 4


def transplant(site: Site, donor: Program, rng: Random) -> ast.expr | None:
    """Draws an expression of the donor whose names are all in scope at the site and whose kind fits there."""
    for _ in range(_TRIES):
        place = rng.choices(range(len(donor.places)), cum_weights=donor.lengths)[0]
        offered = donor.sites(place)
        if not offered:
            continue
        node = rng.choice(offered).node
        if _is_known(node, site.names) and fits(kind_of(node, site.names), site.demand):
            return node
    return None


def _is_known(node: ast.expr, names: Names) -> bool:
    return all(name in names or name in BUILTINS for name in free_names(node))

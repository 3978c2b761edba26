"""Expressions of one program for another."""

import ast
from random import Random

from atoll.mutation.syntax.kinds import fits, infer_kind
from atoll.mutation.syntax.program import Program
from atoll.mutation.syntax.sites import Site
from atoll.mutation.syntax.trees import find_free_names
from atoll.mutation.syntax.words import BUILTINS, NameKinds

_MAX_TRIES = 4


def transplant(site: Site, donor: Program, rng: Random) -> ast.expr | None:
    """Draws an expression of the donor whose names are all in scope at the site and whose kind fits there."""
    for _ in range(_MAX_TRIES):
        index = rng.choices(range(len(donor.expression_sites)), cum_weights=donor.cumulative_lengths)[0]
        donor_sites = donor.get_sites(index)
        if not donor_sites:
            continue
        node = rng.choice(donor_sites).node
        if _are_names_known(node, site.names) and fits(infer_kind(node, site.names), site.required_kind):
            return node
    return None


def _are_names_known(node: ast.expr, names: NameKinds) -> bool:
    return all(name in names or name in BUILTINS for name in find_free_names(node))

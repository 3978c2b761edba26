"""Edits of whole statements: each returns the changes of the text, or None where it cannot be done."""

import ast
from collections.abc import Callable, Sequence
from typing import NamedTuple

from atoll.mutation.syntax.kinds import NUMERIC
from atoll.mutation.syntax.listing import Listing, Splice
from atoll.mutation.syntax.palette import Palette
from atoll.mutation.syntax.places import Spot
from atoll.mutation.syntax.sites import sites_of
from atoll.mutation.syntax.trees import replaced


def insert(listing: Listing, spot: Spot, palette: Palette) -> Sequence[Splice] | None:
    """Writes a new variable before a statement and uses it there."""
    place = spot.place
    found = [] if place is None else [site for site in sites_of(*place[:3]) if site.demand in ("number", "array")]
    if place is None or not found:
        return None
    site = palette.rng.choice(found)
    here = palette.of(site.demand)
    value = here.term()  # of the names before the statement: those of a comprehension are not there yet
    if value is None:
        return None
    name = next(each for each in (f"v{number}" for number in range(10_000)) if not _is_taken(each, spot))
    used: ast.expr = ast.Name(name, ast.Load())
    if site.is_number() and (site.kind == "array" or palette.rng.random() < 0.8):
        used = here.operation(site.node, used)
    start, _ = listing.lines(spot.statement)
    line = f"{listing.indent(spot.statement)}{name} = {ast.unparse(value)}{listing.newline}"
    return [Splice(start, start, line), listing.replacing(place.root, replaced(place.root, site.node, used))]


def drop(listing: Listing, spot: Spot, palette: Palette) -> Sequence[Splice] | None:
    """Takes a statement away that the others can do without."""
    return [Splice(*listing.lines(spot.statement), "")] if spot.is_spare() else None


def guard(listing: Listing, spot: Spot, palette: Palette) -> Sequence[Splice] | None:
    """Lets an assignment happen only under a condition."""
    test = palette.of("bool").comparison() if spot.is_skippable() else None
    if test is None:
        return None
    start, end = listing.span(spot.statement)
    indent = listing.indent(spot.statement) or ""
    deeper = indent + ("\t" if indent.endswith("\t") else "    ")
    return [Splice(start, end, f"if {ast.unparse(test)}:{listing.newline}{deeper}{listing.text[start:end]}")]


def leave(listing: Listing, spot: Spot, palette: Palette) -> Sequence[Splice] | None:
    """Returns early under a condition."""
    if not isinstance(spot.statement, ast.Return) or spot.place is None or spot.place.demand not in NUMERIC:
        return None
    test, value = palette.of("bool").comparison(), palette.of(spot.place.demand).term()
    if test is None or value is None:
        return None
    start, _ = listing.lines(spot.statement)
    indent = listing.indent(spot.statement) or ""
    deeper = indent + ("\t" if indent.endswith("\t") else "    ")
    lines = (f"{indent}if {ast.unparse(test)}:", f"{deeper}return {ast.unparse(value)}", "")
    return [Splice(start, start, listing.newline.join(lines))]


def augment(listing: Listing, spot: Spot, palette: Palette) -> Sequence[Splice] | None:
    """Exchanges the operator of `+=` and its like."""
    node = spot.statement
    if not isinstance(node, ast.AugAssign) or spot.place is None or spot.place.demand not in NUMERIC:
        return None
    op = palette.of(spot.place.demand).operator(node.value, ("+", "-", "*", "/"))
    if type(op) is type(node.op):
        return None
    return [Splice(*listing.span(node), ast.unparse(ast.AugAssign(node.target, op, node.value)))]


def _is_taken(name: str, spot: Spot) -> bool:
    return name in spot.names or name in spot.uses.loads or name in spot.uses.stores


class StatementEdit(NamedTuple):
    """An edit of a statement with its weight.

    Attributes:
        growth: 1 if it makes the program larger, -1 if smaller.
    """

    name: str
    weight: float
    growth: int
    change: Callable[[Listing, Spot, Palette], Sequence[Splice] | None]


STATEMENT_EDITS: Sequence[StatementEdit] = (
    StatementEdit("insert", 0.5, 1, insert),
    StatementEdit("guard", 0.1, 1, guard),
    StatementEdit("leave", 0.1, 1, leave),
    StatementEdit("drop", 1.5, -1, drop),
    StatementEdit("augment", 0.5, 0, augment),
)

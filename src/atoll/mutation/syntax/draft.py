"""A child in the making: edits drawn one after the other, then written into the text at once."""

import ast
from bisect import bisect
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import NamedTuple

from atoll.mutation.syntax.crossover import transplant
from atoll.mutation.syntax.edits import EDITS, Edit
from atoll.mutation.syntax.kinds import kind_of
from atoll.mutation.syntax.listing import Splice, spliced
from atoll.mutation.syntax.palette import Palette
from atoll.mutation.syntax.program import Program, analysed, compiles
from atoll.mutation.syntax.sites import Site, sites_of
from atoll.mutation.syntax.statements import STATEMENT_EDITS, StatementEdit
from atoll.mutation.syntax.trees import replaced, same
from atoll.mutation.syntax.uses import Uses
from atoll.mutation.syntax.vocabulary import Vocabulary
from atoll.mutation.syntax.words import Names

CROSSOVER = Edit("crossover", 1.5, 0, lambda site, palette: None)  # it alone needs another program
_TABLE: Sequence[Edit | StatementEdit] = (*EDITS, CROSSOVER, *STATEMENT_EDITS)
_DRAWS = 40  # most draws do not suit the place where they fall; they cost some microseconds each


class Child(NamedTuple):
    """A new text and the names of the edits that made it."""

    text: str
    edits: Sequence[str]


@dataclass(frozen=True, slots=True)
class Draft:
    """Draws children of one program.

    Attributes:
        mate: The text of another program to take expressions from, or the same.
        more: The chance of another edit after each one.
        soft_size: Nodes of a function beyond which edits shrink it more often than they grow it.
    """

    program: Program
    mate: str
    vocabulary: Vocabulary
    rng: Random
    more: float
    soft_size: int

    def drawn(self) -> Child | None:
        """Draws edits; None if nothing came of them. An edit of a statement stays alone: it changes the scopes.

        What cannot be written down, such as a number of thousands of digits, is nothing too.
        """
        try:
            return self._drawn()
        except (ValueError, RecursionError):
            return None

    def _drawn(self) -> Child | None:
        roots: dict[int, ast.expr] = {}
        edits: list[str] = []
        wanted = self._num_edits()
        for _ in range(_DRAWS):
            number = self.rng.choices(range(len(self.program.places)), cum_weights=self.program.lengths)[0]
            weights = _weights(self.program.places[number].uses.size / self.soft_size)
            edit = _TABLE[bisect(weights, self.rng.random() * weights[-1])]
            if isinstance(edit, Edit):
                edits += [edit.name] if self._changed(edit, number, roots) else []
            elif not edits and (splices := self._spliced(edit)):
                text = spliced(self.program.listing.text, splices)
                return Child(text, (edit.name,)) if compiles(text) else None
            if len(edits) == wanted:
                break
        return self._written(roots, edits)

    def _written(self, roots: dict[int, ast.expr], edits: Sequence[str]) -> Child | None:
        """Writes new expressions for old ones: where the parent compiles, so does the child, unasked (0.1 ms)."""
        listing, places = self.program.listing, self.program.places
        news = {place: root for place, root in roots.items() if not same(root, places[place].root)}
        splices = [listing.replacing(places[place].root, root) for place, root in news.items()]
        return Child(spliced(listing.text, splices), edits) if splices else None

    def _changed(self, edit: Edit, number: int, roots: dict[int, ast.expr]) -> bool:
        """Tries one edit of an expression at a random site of a place and notes the new root."""
        place = self.program.places[number]
        root = roots.get(number, place.root)
        sites = self.program.sites(number) if root is place.root else sites_of(root, place.demand, place.names)
        if not sites:
            return False
        site = self.rng.choice(sites)
        if site.demand == "integer" and edit.growth > 0 and self.rng.random() < 0.75:
            return False  # an index that grows mostly leaves its sequence
        new = self._new(edit, site, self._palette(site, place.uses))
        if new is None or same(new, site.node):
            return False
        made = replaced(root, site.node, new)
        if place.demand == "array" and _loses_shape(root, made, place.names):
            return False
        roots[number] = made
        return True

    def _new(self, edit: Edit, site: Site, palette: Palette) -> ast.expr | None:
        if edit is not CROSSOVER:
            return edit.change(site, palette)
        try:
            return transplant(site, analysed(self.mate, self.vocabulary), self.rng)
        except ValueError:
            return None  # the mate is no Python

    def _spliced(self, edit: StatementEdit) -> Sequence[Splice] | None:
        if not self.program.spots:
            return None
        spot = self.rng.choice(self.program.spots)
        if self.program.listing.indent(spot.statement) is None:
            return None
        palette = Palette(self.rng, self.vocabulary, self.program.functions, spot.names, "number", spot.uses)
        return edit.change(self.program.listing, spot, palette)

    def _num_edits(self) -> int:
        count = 1
        while self.rng.random() < self.more and count < 10:
            count += 1
        return count

    def _palette(self, site: Site, uses: Uses) -> Palette:
        return Palette(self.rng, self.vocabulary, self.program.functions, site.names, site.demand, uses)


def _loses_shape(old: ast.expr, new: ast.expr, names: Names) -> bool:
    """Says whether an array became a number: whoever fills, masks or returns it counts on its shape."""
    return kind_of(old, names) == "array" != kind_of(new, names)


@lru_cache(maxsize=1024)
def _weights(fullness: float) -> Sequence[float]:
    """Returns the weights of the table, added up; in a full function what grows is rarer and what shrinks is not."""
    pressure = 1 + fullness**4
    by_growth = {-1: pressure, 0: 1.0, 1: 1 / pressure}
    return list(accumulate(edit.weight * by_growth[edit.growth] for edit in _TABLE))

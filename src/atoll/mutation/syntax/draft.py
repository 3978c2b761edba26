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
from atoll.mutation.syntax.edits import EXPRESSION_EDITS, ExpressionEdit
from atoll.mutation.syntax.kinds import infer_kind
from atoll.mutation.syntax.listing import Splice, apply_splices
from atoll.mutation.syntax.palette import ExpressionSampler
from atoll.mutation.syntax.program import Program, analyze, compiles
from atoll.mutation.syntax.sites import Site, find_sites
from atoll.mutation.syntax.statements import STATEMENT_EDITS, StatementEdit
from atoll.mutation.syntax.trees import replace_node, is_same
from atoll.mutation.syntax.uses import NameUsage
from atoll.mutation.syntax.vocabulary import Vocabulary
from atoll.mutation.syntax.words import NameKinds

CROSSOVER = ExpressionEdit("crossover", 1.5, 0, lambda site, sampler: None)  # it alone needs another program
_ALL_EDITS: Sequence[ExpressionEdit | StatementEdit] = (*EXPRESSION_EDITS, CROSSOVER, *STATEMENT_EDITS)
_MAX_DRAWS = 40  # most draws do not suit the place where they fall; they cost some microseconds each


class SampledChild(NamedTuple):
    """A new text and the names of the edits that made it."""

    text: str
    edits: Sequence[str]


@dataclass(frozen=True, slots=True)
class EditSampler:
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
    repeat_probability: float
    soft_size: int

    def draw(self) -> SampledChild | None:
        """Draws edits; None if nothing came of them. An edit of a statement stays alone: it changes the scopes.

        What cannot be written down, such as a number of thousands of digits, is nothing too.
        """
        try:
            return self._draw_edits()
        except (ValueError, RecursionError):
            return None

    def _draw_edits(self) -> SampledChild | None:
        roots: dict[int, ast.expr] = {}
        edits: list[str] = []
        num_edits = self._draw_num_edits()
        for _ in range(_MAX_DRAWS):
            site_index = self.rng.choices(range(len(self.program.expression_sites)), cum_weights=self.program.cumulative_lengths)[0]
            weights = _compute_cumulative_weights(self.program.expression_sites[site_index].usage.size / self.soft_size)
            edit = _ALL_EDITS[bisect(weights, self.rng.random() * weights[-1])]
            if isinstance(edit, ExpressionEdit):
                edits += [edit.name] if self._try_edit(edit, site_index, roots) else []
            elif not edits and (splices := self._make_splices(edit)):
                text = apply_splices(self.program.source_text.text, splices)
                return SampledChild(text, (edit.name,)) if compiles(text) else None
            if len(edits) == num_edits:
                break
        return self._write_roots(roots, edits)

    def _write_roots(self, roots: dict[int, ast.expr], edits: Sequence[str]) -> SampledChild | None:
        """Writes new expressions for old ones: where the parent compiles, so does the child, unasked (0.1 ms)."""
        source_text, expression_sites = self.program.source_text, self.program.expression_sites
        changed_roots = {index: root for index, root in roots.items() if not is_same(root, expression_sites[index].root)}
        splices = [source_text.make_replacement(expression_sites[index].root, root) for index, root in changed_roots.items()]
        return SampledChild(apply_splices(source_text.text, splices), edits) if splices else None

    def _try_edit(self, edit: ExpressionEdit, site_index: int, roots: dict[int, ast.expr]) -> bool:
        """Tries one edit of an expression at a random site of a place and notes the new root."""
        expression_site = self.program.expression_sites[site_index]
        root = roots.get(site_index, expression_site.root)
        sites = self.program.get_sites(site_index) if root is expression_site.root else find_sites(root, expression_site.required_kind, expression_site.names)
        if not sites:
            return False
        site = self.rng.choice(sites)
        if site.required_kind == "integer" and edit.growth > 0 and self.rng.random() < 0.75:
            return False  # an index that grows mostly leaves its sequence
        new = self._make_expression(edit, site, self._make_sampler(site, expression_site.usage))
        if new is None or is_same(new, site.node):
            return False
        new_root = replace_node(root, site.node, new)
        if expression_site.required_kind == "array" and _loses_shape(root, new_root, expression_site.names):
            return False
        roots[site_index] = new_root
        return True

    def _make_expression(self, edit: ExpressionEdit, site: Site, sampler: ExpressionSampler) -> ast.expr | None:
        if edit is not CROSSOVER:
            return edit.apply(site, sampler)
        try:
            return transplant(site, analyze(self.mate, self.vocabulary), self.rng)
        except ValueError:
            return None  # the mate is no Python

    def _make_splices(self, edit: StatementEdit) -> Sequence[Splice] | None:
        if not self.program.statement_sites:
            return None
        statement_site = self.rng.choice(self.program.statement_sites)
        if self.program.source_text.get_indent(statement_site.statement) is None:
            return None
        sampler = ExpressionSampler(self.rng, self.vocabulary, self.program.functions, statement_site.names, "number", statement_site.usage)
        return edit.apply(self.program.source_text, statement_site, sampler)

    def _draw_num_edits(self) -> int:
        count = 1
        while self.rng.random() < self.repeat_probability and count < 10:
            count += 1
        return count

    def _make_sampler(self, site: Site, usage: NameUsage) -> ExpressionSampler:
        return ExpressionSampler(self.rng, self.vocabulary, self.program.functions, site.names, site.required_kind, usage)


def _loses_shape(old: ast.expr, new: ast.expr, names: NameKinds) -> bool:
    """Says whether an array became a number: whoever fills, masks or returns it counts on its shape."""
    return infer_kind(old, names) == "array" != infer_kind(new, names)


@lru_cache(maxsize=1024)
def _compute_cumulative_weights(fullness: float) -> Sequence[float]:
    """Returns the weights of the table, added up; in a full function what grows is rarer and what shrinks is not."""
    pressure = 1 + fullness**4
    by_growth = {-1: pressure, 0: 1.0, 1: 1 / pressure}
    return list(accumulate(edit.weight * by_growth[edit.growth] for edit in _ALL_EDITS))

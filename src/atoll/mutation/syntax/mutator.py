"""Mutator that changes Python by its syntax tree, without an LLM: it samples edits of statements and crossover."""

import ast
from bisect import bisect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate
from random import Random
from typing import NamedTuple, Self

from atoll import errors, function
from atoll.mutation.syntax.edits import EXPRESSION_EDITS, ExpressionEdit, ExpressionSampler
from atoll.mutation.syntax.name_usage import NameUsage
from atoll.mutation.syntax.program import Program, analyze, compiles
from atoll.mutation.syntax.sites import Site, StatementSite, find_sites
from atoll.mutation.syntax.source_text import SourceText, Splice, apply_splices, find_free_names, is_same, replace_node
from atoll.mutation.syntax.value_kinds import BUILTINS, NUMERIC_KINDS, Kind, NameKinds, Vocabulary, fits, infer_kind
from atoll.mutation.text_blocks import with_text

type Splices = Sequence[Splice] | None

_MAX_TRIES = 4


def transplant(site: Site, donor: Program, rng: Random) -> ast.expr | None:
    """Draws an expression of the donor whose names are in scope at the site and whose kind fits."""
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


def insert_variable(source_text: SourceText, target: StatementSite, sampler: ExpressionSampler) -> Splices:
    """Writes a new variable before a statement and uses it there."""
    expression_site = target.expression_site
    sites = find_sites(*expression_site[:3]) if expression_site is not None else []
    number_sites = [site for site in sites if site.required_kind in ("number", "array")]
    if expression_site is None or not number_sites:
        return None
    site = sampler.rng.choice(number_sites)
    site_sampler = sampler.with_kind(site.required_kind)
    value = site_sampler.draw_term()  # only names before the statement; names of a comprehension are not bound yet
    if value is None:
        return None
    name = next(name for name in (f"v{index}" for index in range(10_000)) if not _is_taken(name, target))
    new_node: ast.expr = ast.Name(name, ast.Load())
    if site.is_number() and (site.kind == "array" or sampler.rng.random() < 0.8):
        new_node = site_sampler.combine(site.node, new_node)
    start, _ = source_text.get_line_span(target.statement)
    line = f"{source_text.get_indent(target.statement)}{name} = {ast.unparse(value)}{source_text.newline}"
    new_root = replace_node(expression_site.root, site.node, new_node)
    return [Splice(start, start, line), source_text.make_replacement(expression_site.root, new_root)]


def drop_statement(source_text: SourceText, target: StatementSite, sampler: ExpressionSampler) -> Splices:
    """Removes a statement that the others do not need."""
    return [Splice(*source_text.get_line_span(target.statement), "")] if target.is_removable() else None


def guard_assignment(source_text: SourceText, target: StatementSite, sampler: ExpressionSampler) -> Splices:
    """Puts an assignment under a condition."""
    test = sampler.with_kind("bool").draw_comparison() if target.is_skippable() else None
    if test is None:
        return None
    start, end = source_text.get_span(target.statement)
    indent = source_text.get_indent(target.statement) or ""
    deeper = indent + ("\t" if indent.endswith("\t") else "    ")
    return [Splice(start, end, f"if {ast.unparse(test)}:{source_text.newline}{deeper}{source_text.text[start:end]}")]


def return_early(source_text: SourceText, target: StatementSite, sampler: ExpressionSampler) -> Splices:
    """Returns early under a condition."""
    kind = target.expression_site.required_kind if target.expression_site else None
    if not isinstance(target.statement, ast.Return) or kind not in NUMERIC_KINDS:
        return None
    test = sampler.with_kind("bool").draw_comparison()
    value = sampler.with_kind(kind).draw_term()
    if test is None or value is None:
        return None
    start, _ = source_text.get_line_span(target.statement)
    indent = source_text.get_indent(target.statement) or ""
    deeper = indent + ("\t" if indent.endswith("\t") else "    ")
    lines = (f"{indent}if {ast.unparse(test)}:", f"{deeper}return {ast.unparse(value)}", "")
    return [Splice(start, start, source_text.newline.join(lines))]


def replace_augmented_operator(source_text: SourceText, target: StatementSite, sampler: ExpressionSampler) -> Splices:
    """Replaces the operator of an augmented assignment such as `+=`."""
    node = target.statement
    kind = target.expression_site.required_kind if target.expression_site else None
    if not isinstance(node, ast.AugAssign) or kind not in NUMERIC_KINDS:
        return None
    op = sampler.with_kind(kind).draw_operator(node.value, ("+", "-", "*", "/"))
    if type(op) is type(node.op):
        return None
    return [Splice(*source_text.get_span(node), ast.unparse(ast.AugAssign(node.target, op, node.value)))]


def _is_taken(name: str, target: StatementSite) -> bool:
    return name in target.names or name in target.usage.loads or name in target.usage.stores


class StatementEdit(NamedTuple):
    """Edit of a statement with its weight.

    Attributes:
        growth: 1 if it makes the program larger, -1 if smaller.
    """

    name: str
    weight: float
    growth: int
    apply: Callable[[SourceText, StatementSite, ExpressionSampler], Sequence[Splice] | None]


STATEMENT_EDITS: Sequence[StatementEdit] = (
    StatementEdit("insert", 0.5, 1, insert_variable),
    StatementEdit("guard", 0.1, 1, guard_assignment),
    StatementEdit("leave", 0.1, 1, return_early),
    StatementEdit("drop", 1.5, -1, drop_statement),
    StatementEdit("augment", 0.5, 0, replace_augmented_operator),
)


CROSSOVER = ExpressionEdit("crossover", 1.5, 0, lambda site, sampler: None)  # EditSampler applies it
_ALL_EDITS: Sequence[ExpressionEdit | StatementEdit] = (*EXPRESSION_EDITS, CROSSOVER, *STATEMENT_EDITS)
_MAX_DRAWS = 40  # most draws do not fit their site; each costs some microseconds


class SampledChild(NamedTuple):
    """New text and the names of its edits."""

    text: str
    edits: Sequence[str]


@dataclass(frozen=True, slots=True)
class EditSampler:
    """Draws children of one program.

    Attributes:
        mate: Text of another program as a source of expressions, or of the same.
        repeat_probability: Probability of another edit after each one.
        soft_size: Size of a function, in nodes, above which edits mostly shrink it.
    """

    program: Program
    mate: str
    vocabulary: Vocabulary
    rng: Random
    repeat_probability: float
    soft_size: int

    def draw(self) -> SampledChild | None:
        """Draws edits; returns None if none applied or the result cannot be written as text.

        An edit of a statement stays the only edit, because it changes scopes.
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
            indices, lengths = range(len(self.program.expression_sites)), self.program.cumulative_lengths
            site_index = self.rng.choices(indices, cum_weights=lengths)[0]
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
        """Writes new expressions. The child compiles if the parent does, so it is not compiled again (0.1 ms)."""
        source_text, expression_sites = self.program.source_text, self.program.expression_sites
        old_roots = [site.root for site in expression_sites]
        changed_roots = {index: root for index, root in roots.items() if not is_same(root, old_roots[index])}
        splices = [source_text.make_replacement(old_roots[index], root) for index, root in changed_roots.items()]
        return SampledChild(apply_splices(source_text.text, splices), edits) if splices else None

    def _try_edit(self, edit: ExpressionEdit, site_index: int, roots: dict[int, ast.expr]) -> bool:
        """Tries one edit at a random site of an expression and records the new root."""
        expression_site = self.program.expression_sites[site_index]
        root = roots.get(site_index, expression_site.root)
        sites = self.program.get_sites(site_index)
        if root is not expression_site.root:
            sites = find_sites(root, expression_site.required_kind, expression_site.names)
        if not sites:
            return False
        site = self.rng.choice(sites)
        if site.required_kind == "integer" and edit.growth > 0 and self.rng.random() < 0.75:
            return False  # a larger index is mostly out of range
        sampler = self._make_sampler(site.names, site.required_kind, expression_site.usage)
        new = self._make_expression(edit, site, sampler)
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
            return None  # the mate is not valid Python

    def _make_splices(self, edit: StatementEdit) -> Splices:
        if not self.program.statement_sites:
            return None
        statement_site = self.rng.choice(self.program.statement_sites)
        if self.program.source_text.get_indent(statement_site.statement) is None:
            return None
        sampler = self._make_sampler(statement_site.names, "number", statement_site.usage)
        return edit.apply(self.program.source_text, statement_site, sampler)

    def _draw_num_edits(self) -> int:
        count = 1
        while self.rng.random() < self.repeat_probability and count < 10:
            count += 1
        return count

    def _make_sampler(self, names: NameKinds, required_kind: Kind, usage: NameUsage) -> ExpressionSampler:
        return ExpressionSampler(self.rng, self.vocabulary, self.program.functions, names, required_kind, usage)


def _loses_shape(old: ast.expr, new: ast.expr, names: NameKinds) -> bool:
    """Returns whether an array became a number: other code may depend on its shape."""
    return infer_kind(old, names) == "array" != infer_kind(new, names)


@lru_cache(maxsize=1024)
def _compute_cumulative_weights(fullness: float) -> Sequence[float]:
    """Returns the cumulative weights of the edits. In a large function, growing edits are rarer."""
    pressure = 1 + fullness**4
    by_growth = {-1: pressure, 0: 1.0, 1: 1 / pressure}
    return list(accumulate(edit.weight * by_growth[edit.growth] for edit in _ALL_EDITS))


@dataclass(frozen=True, slots=True)
class SyntaxMutator:
    """Makes one child of the best parent by a few random edits of its syntax tree.

    With `EVOLVE-BLOCK-START` and `EVOLVE-BLOCK-END` comments, only code between them changes. Without them, all code
    may change except imports, docstrings, signatures, decorators and the `__main__` block. Unchanged statements keep
    their text.

    Attributes:
        vocabulary: Names and constants for new code.
        repeat_probability: Probability of another edit after each one.
        soft_size: Size of a function, in nodes, above which edits mostly shrink it. `for_source` sets it.
        max_attempts: Samples that may fail to compile or repeat the parent before the proposal fails.
    """

    vocabulary: Vocabulary = field(default_factory=Vocabulary)
    repeat_probability: float = 0.2
    soft_size: int = 150
    max_attempts: int = 10

    def __post_init__(self) -> None:
        if not 0 <= self.repeat_probability < 1:
            raise errors.SetupError(f"repeat_probability is {self.repeat_probability}. Set it from 0 to below 1.")
        if self.soft_size < 1 or self.max_attempts < 1:
            raise errors.SetupError(
                f"soft_size is {self.soft_size} and max_attempts {self.max_attempts}. Set both to at least 1."
            )

    @classmethod
    def for_source(cls, text: str, vocabulary: Vocabulary | None = None) -> Self:
        """Returns a mutator that lets the functions of this source double in size.

        Raises:
            ValueError: The text is not valid Python, or nothing in it may change.
        """
        vocabulary = vocabulary or Vocabulary()
        sizes = [site.usage.size for site in analyze(text, vocabulary).expression_sites]
        return cls(vocabulary, soft_size=max(150, 2 * max(sizes)))

    def propose(self, context: function.ProposalContext) -> Sequence[function.Function]:
        """Returns one child that differs from its parent and compiles if the parent does.

        Raises:
            ValueError: The parent is not valid Python, or no such child was found.
        """
        parent, mate = context.parents[-1], _choose_mate(context)
        program = analyze(str(parent.skeleton()), self.vocabulary)
        sampler = EditSampler(
            program, str(mate.skeleton()), self.vocabulary, context.rng, self.repeat_probability, self.soft_size
        )
        for _ in range(self.max_attempts):
            child = sampler.draw()
            if child is not None:
                parents = [parent, mate] if CROSSOVER.name in child.edits and mate is not parent else [parent]
                skeleton, edit = with_text(parent, child.text), ", ".join(child.edits)
                return [function.derive_child(parent, skeleton, parents=parents, engine="syntax", edit=edit)]
        raise ValueError(f"{self.max_attempts} attempts gave no new program. Use an LLM for this source.")


def is_mutable(text: str) -> bool:
    """Returns whether a text is valid Python with code that may change. If not, it needs an LLM."""
    try:
        program = analyze(text, Vocabulary())
    except ValueError:
        return False
    return compiles(text) and any(program.get_sites(index) for index in range(len(program.expression_sites)))


def _choose_mate(context: function.ProposalContext) -> function.Function:
    """Draws another program as a source of expressions; the parent if no other exists."""
    *other_parents, parent = context.parents
    groups = [other_parents, *(fns for role, fns in context.inspirations.items() if role != "failed")]
    mates = [fn for fns in groups for fn in fns if str(fn.skeleton()) != str(parent.skeleton())]
    return context.rng.choice(mates) if mates else parent

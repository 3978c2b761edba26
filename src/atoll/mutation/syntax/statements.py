"""Edits of whole statements: each returns the changes of the text, or None where it cannot be done."""

import ast
from collections.abc import Callable, Sequence
from typing import NamedTuple

from atoll.mutation.syntax.kinds import NUMERIC_KINDS
from atoll.mutation.syntax.listing import SourceText, Splice
from atoll.mutation.syntax.palette import ExpressionSampler
from atoll.mutation.syntax.places import StatementSite
from atoll.mutation.syntax.sites import find_sites
from atoll.mutation.syntax.trees import replace_node


def insert_variable(source_text: SourceText, statement_site: StatementSite, sampler: ExpressionSampler) -> Sequence[Splice] | None:
    """Writes a new variable before a statement and uses it there."""
    expression_site = statement_site.expression_site
    number_sites = [] if expression_site is None else [site for site in find_sites(*expression_site[:3]) if site.required_kind in ("number", "array")]
    if expression_site is None or not number_sites:
        return None
    site = sampler.rng.choice(number_sites)
    site_sampler = sampler.with_kind(site.required_kind)
    value = site_sampler.draw_term()  # of the names before the statement: those of a comprehension are not there yet
    if value is None:
        return None
    name = next(candidate for candidate in (f"v{index}" for index in range(10_000)) if not _is_taken(candidate, statement_site))
    new_node: ast.expr = ast.Name(name, ast.Load())
    if site.is_number() and (site.kind == "array" or sampler.rng.random() < 0.8):
        new_node = site_sampler.combine(site.node, new_node)
    start, _ = source_text.get_line_span(statement_site.statement)
    line = f"{source_text.get_indent(statement_site.statement)}{name} = {ast.unparse(value)}{source_text.newline}"
    return [Splice(start, start, line), source_text.make_replacement(expression_site.root, replace_node(expression_site.root, site.node, new_node))]


def drop_statement(source_text: SourceText, statement_site: StatementSite, sampler: ExpressionSampler) -> Sequence[Splice] | None:
    """Takes a statement away that the others can do without."""
    return [Splice(*source_text.get_line_span(statement_site.statement), "")] if statement_site.is_removable() else None


def guard_assignment(source_text: SourceText, statement_site: StatementSite, sampler: ExpressionSampler) -> Sequence[Splice] | None:
    """Lets an assignment happen only under a condition."""
    test = sampler.with_kind("bool").draw_comparison() if statement_site.is_skippable() else None
    if test is None:
        return None
    start, end = source_text.get_span(statement_site.statement)
    indent = source_text.get_indent(statement_site.statement) or ""
    deeper = indent + ("\t" if indent.endswith("\t") else "    ")
    return [Splice(start, end, f"if {ast.unparse(test)}:{source_text.newline}{deeper}{source_text.text[start:end]}")]


def return_early(source_text: SourceText, statement_site: StatementSite, sampler: ExpressionSampler) -> Sequence[Splice] | None:
    """Returns early under a condition."""
    if not isinstance(statement_site.statement, ast.Return) or statement_site.expression_site is None or statement_site.expression_site.required_kind not in NUMERIC_KINDS:
        return None
    test, value = sampler.with_kind("bool").draw_comparison(), sampler.with_kind(statement_site.expression_site.required_kind).draw_term()
    if test is None or value is None:
        return None
    start, _ = source_text.get_line_span(statement_site.statement)
    indent = source_text.get_indent(statement_site.statement) or ""
    deeper = indent + ("\t" if indent.endswith("\t") else "    ")
    lines = (f"{indent}if {ast.unparse(test)}:", f"{deeper}return {ast.unparse(value)}", "")
    return [Splice(start, start, source_text.newline.join(lines))]


def replace_augmented_operator(source_text: SourceText, statement_site: StatementSite, sampler: ExpressionSampler) -> Sequence[Splice] | None:
    """Exchanges the operator of `+=` and its like."""
    node = statement_site.statement
    if not isinstance(node, ast.AugAssign) or statement_site.expression_site is None or statement_site.expression_site.required_kind not in NUMERIC_KINDS:
        return None
    op = sampler.with_kind(statement_site.expression_site.required_kind).draw_operator(node.value, ("+", "-", "*", "/"))
    if type(op) is type(node.op):
        return None
    return [Splice(*source_text.get_span(node), ast.unparse(ast.AugAssign(node.target, op, node.value)))]


def _is_taken(name: str, statement_site: StatementSite) -> bool:
    return name in statement_site.names or name in statement_site.usage.loads or name in statement_site.usage.stores


class StatementEdit(NamedTuple):
    """An edit of a statement with its weight.

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

"""Expressions and statements of a source that may change."""

import ast
from dataclasses import dataclass, field
from typing import NamedTuple

from atoll.mutation.syntax.name_usage import NameUsage
from atoll.mutation.syntax.source_text import SourceText
from atoll.mutation.syntax.trees import list_nodes
from atoll.mutation.syntax.value_kinds import Kind, NameKinds
from atoll.mutation.syntax.vocabulary import Vocabulary


class ExpressionSite(NamedTuple):
    """Complete expression that may change: the value, test or iterable of a statement.

    Attributes:
        root: The expression.
        required_kind: Kind of value that the statement needs.
        names: Names in scope.
        usage: Usage of names in the function around it.
    """

    root: ast.expr
    required_kind: Kind
    names: NameKinds
    usage: NameUsage


class StatementSite(NamedTuple):
    """Statement that may get new statements around it.

    Attributes:
        names: Names in scope before it.
        expression_site: Its expression, if that may change.
        is_movable: Whether it may be removed: it is local, not the only statement, and does not end a loop.
    """

    statement: ast.stmt
    names: NameKinds
    usage: NameUsage
    expression_site: ExpressionSite | None
    is_movable: bool

    def is_removable(self) -> bool:
        """Returns whether the remaining code has all its names without this statement."""
        if not self.is_movable or isinstance(self.statement, ast.Return):
            return False
        if isinstance(self.statement, ast.Expr):
            return isinstance(self.statement.value, ast.Call)
        loop_target = self.statement.target if isinstance(self.statement, ast.For) else None
        stored_names = [node for node in list_nodes(self.statement) if isinstance(node, ast.Name) and not is_read(node)]
        return all(
            node is loop_target or node.id in self.names or node.id not in self.usage.loads for node in stored_names
        )

    def is_skippable(self) -> bool:
        """Returns whether it is one line that assigns to a name with a value."""
        match self.statement:
            case ast.Assign([ast.Name(name)]) | ast.AugAssign(ast.Name(name)):
                return name in self.names and self.statement.lineno == self.statement.end_lineno
        return False


def is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


@dataclass(slots=True)
class SiteIndex:
    """All sites of one source, filled by its blocks.

    Attributes:
        number_kind: Kind of a name of which only arithmetic is known: an array if the source uses numpy.
    """

    source_text: SourceText
    vocabulary: Vocabulary
    number_kind: Kind = "number"
    expression_sites: list[ExpressionSite] = field(default_factory=list)
    statement_sites: list[StatementSite] = field(default_factory=list)

"""Where a source may change."""

import ast
from dataclasses import dataclass, field
from typing import NamedTuple

from atoll.mutation.syntax.name_usage import NameUsage
from atoll.mutation.syntax.source_text import SourceText
from atoll.mutation.syntax.trees import list_nodes
from atoll.mutation.syntax.value_kinds import Kind, NameKinds
from atoll.mutation.syntax.vocabulary import Vocabulary


class ExpressionSite(NamedTuple):
    """A whole expression that may change: the value, test or iterable of a statement.

    Attributes:
        root: The expression.
        demand: The kind that may stand there.
        names: What is in scope.
        uses: How the function around it uses its names.
    """

    root: ast.expr
    required_kind: Kind
    names: NameKinds
    usage: NameUsage


class StatementSite(NamedTuple):
    """A statement that others may be written around.

    Attributes:
        names: What is in scope before it.
        place: Its expression, if that may change.
        is_movable: Whether the body around it may lose it: it is local, not alone there, and ends no loop.
    """

    statement: ast.stmt
    names: NameKinds
    usage: NameUsage
    expression_site: ExpressionSite | None
    is_movable: bool

    def is_removable(self) -> bool:
        """Says whether the names that the rest reads are there without this statement."""
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
        """Says whether it is a line that assigns to what has a value already."""
        match self.statement:
            case ast.Assign([ast.Name(name)]) | ast.AugAssign(ast.Name(name)):
                return name in self.names and self.statement.lineno == self.statement.end_lineno
        return False


def is_read(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Load)


@dataclass(slots=True)
class SiteIndex:
    """What the blocks of one source share and fill.

    Attributes:
        number: What arithmetic alone means: where numpy is about, an array.
    """

    source_text: SourceText
    vocabulary: Vocabulary
    number_kind: Kind = "number"
    expression_sites: list[ExpressionSite] = field(default_factory=list)
    statement_sites: list[StatementSite] = field(default_factory=list)

"""Mutation of Python by its syntax tree."""

from atoll.mutation.syntax.mutator import SyntaxMutator, is_mutable
from atoll.mutation.syntax.value_kinds import Vocabulary

__all__ = ["SyntaxMutator", "Vocabulary", "is_mutable"]

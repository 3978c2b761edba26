"""Python rewritten by its syntax."""

from atoll.mutation.syntax.engine import Syntax, can_rewrite
from atoll.mutation.syntax.vocabulary import Vocabulary

__all__ = ["Syntax", "Vocabulary", "can_rewrite"]

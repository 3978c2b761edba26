"""Engines that make children: by syntax, by numbers alone, by a language model."""

from atoll.mutation.constants import Constants
from atoll.mutation.fences import fenced, fenced_code
from atoll.mutation.prompts import program_prompt
from atoll.mutation.rewrite import Model, Rewrite
from atoll.mutation.skeletons import skeleton_of
from atoll.mutation.syntax import Syntax, Vocabulary, can_rewrite

# fmt: off
__all__ = [
    "Constants", "Model", "Rewrite", "Syntax", "Vocabulary", "can_rewrite", "fenced", "fenced_code", "program_prompt",
    "skeleton_of",
]
# fmt: on

"""Engines that make children: by syntax, by numbers alone, by a language model."""

from atoll.mutation.choices import Choices, choices
from atoll.mutation.constants import Constants
from atoll.mutation.diffs import blocks_of, edited
from atoll.mutation.edit import MODES, Ask, Edit, Mode, Prompt, Request
from atoll.mutation.fences import fenced, fenced_code
from atoll.mutation.patterns import reads
from atoll.mutation.prompts import program_prompt
from atoll.mutation.rewrite import Model, Rewrite
from atoll.mutation.skeletons import skeleton_of
from atoll.mutation.syntax import Syntax, Vocabulary, can_rewrite

# fmt: off
__all__ = [
    "MODES", "Ask", "Choices", "Constants", "Edit", "Mode", "Model", "Prompt", "Request", "Rewrite", "Syntax",
    "Vocabulary", "blocks_of", "can_rewrite", "choices", "edited", "fenced", "fenced_code", "program_prompt", "reads",
    "skeleton_of",
]
# fmt: on

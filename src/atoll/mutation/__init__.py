"""Engines that make children: by syntax, by numbers alone, by a language model."""

from atoll.mutation.choices import Choices, choices
from atoll.mutation.choosing import mixed_with, without_llm
from atoll.mutation.constants import Constants
from atoll.mutation.diffs import blocks_of, edited
from atoll.mutation.edit import MODES, Ask, Edit, Mode, Prompt, Request
from atoll.mutation.fences import fenced, fenced_code
from atoll.mutation.mixed import Bandit, Engine, Mixed
from atoll.mutation.patterns import reads
from atoll.mutation.prompts import program_prompt
from atoll.mutation.refined import Refined
from atoll.mutation.rewrite import Model, Rewrite
from atoll.mutation.skeletons import skeleton_of
from atoll.mutation.syntax import Syntax, Vocabulary, can_rewrite
from atoll.mutation.tuner import Tuner, tunable
from atoll.mutation.unfit import Unfit

# fmt: off
__all__ = [
    "MODES", "Ask", "Bandit", "Choices", "Constants", "Edit", "Engine", "Mixed", "Mode", "Model", "Prompt", "Refined",
    "Request", "Rewrite", "Syntax", "Tuner", "Unfit", "Vocabulary", "blocks_of", "can_rewrite", "choices", "edited",
    "fenced", "fenced_code", "mixed_with", "program_prompt", "reads", "skeleton_of", "tunable", "without_llm",
]
# fmt: on

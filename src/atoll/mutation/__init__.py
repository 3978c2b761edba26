"""Engines that make children: by syntax, by numbers alone, by a language model."""

from atoll.mutation.applicability import NotApplicable, with_text
from atoll.mutation.choice_mutator import ChoiceMutator, find_choices
from atoll.mutation.combined import MixedMutator, MutatorBandit, MutatorName, TunedMutator
from atoll.mutation.constants import ConstantMutator
from atoll.mutation.defaults import add_tuner, make_default_mutator
from atoll.mutation.diffs import apply_blocks, make_diff_parser, parse_blocks
from atoll.mutation.llm_mutators import (
    MODES,
    EditMutator,
    EditRequest,
    LLMCallable,
    Mode,
    Prompt,
    PromptBuilder,
    RewriteMutator,
)
from atoll.mutation.prompts import build_program_prompt
from atoll.mutation.syntax import SyntaxMutator, Vocabulary, is_mutable
from atoll.mutation.text_blocks import extract_code, fence
from atoll.mutation.tuner import Tuner, tunable

# fmt: off
__all__ = [
    "MODES", "PromptBuilder", "MutatorBandit", "ChoiceMutator", "ConstantMutator", "EditMutator", "MutatorName", "MixedMutator", "Mode", "LLMCallable", "Prompt", "TunedMutator",
    "EditRequest", "RewriteMutator", "SyntaxMutator", "Tuner", "NotApplicable", "Vocabulary", "parse_blocks", "is_mutable", "find_choices", "apply_blocks",
    "fence", "extract_code", "add_tuner", "build_program_prompt", "make_diff_parser", "with_text", "tunable", "make_default_mutator",
]
# fmt: on

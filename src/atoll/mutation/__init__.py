"""Engines that make children: by syntax, by numbers alone, by a language model."""

from atoll.mutation.choices import ChoiceMutator, find_choices
from atoll.mutation.choosing import add_tuner, make_default_mutator
from atoll.mutation.constants import ConstantMutator
from atoll.mutation.diffs import parse_blocks, apply_blocks
from atoll.mutation.edit import MODES, PromptBuilder, EditMutator, Mode, Prompt, EditRequest
from atoll.mutation.fences import fence, extract_code
from atoll.mutation.mixed import MutatorBandit, MutatorName, MixedMutator
from atoll.mutation.patterns import make_diff_parser
from atoll.mutation.prompts import build_program_prompt
from atoll.mutation.refined import TunedMutator
from atoll.mutation.rewrite import LLMCallable, RewriteMutator
from atoll.mutation.skeletons import with_text
from atoll.mutation.syntax import SyntaxMutator, Vocabulary, is_mutable
from atoll.mutation.tuner import Tuner, tunable
from atoll.mutation.unfit import NotApplicable

# fmt: off
__all__ = [
    "MODES", "PromptBuilder", "MutatorBandit", "ChoiceMutator", "ConstantMutator", "EditMutator", "MutatorName", "MixedMutator", "Mode", "LLMCallable", "Prompt", "TunedMutator",
    "EditRequest", "RewriteMutator", "SyntaxMutator", "Tuner", "NotApplicable", "Vocabulary", "parse_blocks", "is_mutable", "find_choices", "apply_blocks",
    "fence", "extract_code", "add_tuner", "build_program_prompt", "make_diff_parser", "with_text", "tunable", "make_default_mutator",
]
# fmt: on

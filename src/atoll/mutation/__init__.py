"""Mutators: by syntax, by numbers, by word lists, and by an LLM."""

from atoll.mutation.choice_mutator import ChoiceMutator, find_choices
from atoll.mutation.combined import (
    ChildTuner,
    MixedMutator,
    MutatorBandit,
    MutatorName,
    TunedMutator,
    add_mutators,
    make_default_mutator,
)
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
    build_program_prompt,
)
from atoll.mutation.python_statements import compile_python, find_required_names, find_signature
from atoll.mutation.response_reader import ReadProgram, ResponseReader, UnusableResponse
from atoll.mutation.response_text import clean_response, extract_text, iter_fenced_blocks, mend_python
from atoll.mutation.syntax import SyntaxMutator, Vocabulary, is_mutable
from atoll.mutation.text_blocks import NotApplicable, describe_editable_part, fence, hide_markers, with_text
from atoll.mutation.tuner import Tuner, tunable

# fmt: off
__all__ = [
    "MODES", "ChildTuner", "ChoiceMutator", "EditMutator", "EditRequest", "LLMCallable",
    "MixedMutator", "Mode", "MutatorBandit", "MutatorName", "NotApplicable", "Prompt", "PromptBuilder", "ReadProgram",
    "ResponseReader", "RewriteMutator", "SyntaxMutator", "TunedMutator", "Tuner", "UnusableResponse", "Vocabulary",
    "add_mutators", "apply_blocks", "build_program_prompt", "clean_response", "compile_python",
    "describe_editable_part", "extract_text", "fence", "find_choices",
    "find_required_names", "find_signature", "hide_markers", "is_mutable", "iter_fenced_blocks",
    "make_default_mutator", "make_diff_parser", "mend_python", "parse_blocks", "tunable", "with_text",
]
# fmt: on

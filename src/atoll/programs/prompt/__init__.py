"""Prompts of program evolution: named blocks in templates, within the model's window, what candidates said fenced."""

from atoll.programs.prompt.builder import ProgramPromptBuilder
from atoll.programs.prompt.templates import Templates
from atoll.programs.prompt.token_limit import estimate_tokens

__all__ = ["ProgramPromptBuilder", "Templates", "estimate_tokens"]

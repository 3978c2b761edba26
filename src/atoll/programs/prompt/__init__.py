"""Prompts of program evolution: sections in templates, within the LLM's limit, with candidates' texts fenced."""

from atoll.programs.prompt.builder import ProgramPromptBuilder
from atoll.programs.prompt.templates import Templates
from atoll.programs.prompt.token_limit import estimate_tokens

__all__ = ["ProgramPromptBuilder", "Templates", "estimate_tokens"]

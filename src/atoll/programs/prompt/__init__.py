"""Prompts of program evolution: sections in templates, within the LLM's limit, with candidates' texts fenced."""

from atoll.programs.prompt.builder import ProgramPromptBuilder
from atoll.programs.prompt.sections import estimate_tokens
from atoll.programs.prompt.templates import Templates

__all__ = ["ProgramPromptBuilder", "Templates", "estimate_tokens"]

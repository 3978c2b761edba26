"""Prompts of program evolution: named blocks in templates, within the model's window, what candidates said fenced."""

from atoll.programs.prompt.prompter import ProgramPromptBuilder
from atoll.programs.prompt.templates import Templates
from atoll.programs.prompt.window import estimate_tokens

__all__ = ["ProgramPromptBuilder", "Templates", "estimate_tokens"]

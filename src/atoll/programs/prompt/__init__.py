"""Prompts of program evolution: named blocks in templates, within the model's window, what candidates said fenced."""

from atoll.programs.prompt.prompter import Prompter
from atoll.programs.prompt.templates import Templates
from atoll.programs.prompt.window import tokens_of

__all__ = ["Prompter", "Templates", "tokens_of"]

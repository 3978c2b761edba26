"""Prompts of program evolution: named blocks in templates, within the model's window, what candidates said fenced."""

from atoll.programs.prompt.prompter import Prompter
from atoll.programs.prompt.templates import Templates

__all__ = ["Prompter", "Templates"]

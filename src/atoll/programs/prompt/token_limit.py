"""Shortens the sections of a prompt to a limit."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from atoll.mutation import text_blocks

type SectionTexts = Mapping[str, Sequence[str]]

_TOKEN_PATTERN = re.compile(r"[A-Za-z]+|[0-9]|\n[ \t]*|[ \t]+|[\x21-\x7e]|[^\x00-\x7f]")
_LETTERS_PER_TOKEN = 3  # a low estimate


def estimate_tokens(text: str) -> int:
    """Estimates the number of tokens, rather too many, since tokenizers differ.

    A word counts one per three letters; a digit, a mark and an indentation one; letters of other alphabets two.
    """
    count = 0
    for piece in _TOKEN_PATTERN.findall(text):
        is_word = piece.isalpha() and piece.isascii()
        count += -(-len(piece) // _LETTERS_PER_TOKEN) if is_word else 1 + (not piece.isascii())
    return count


@dataclass(frozen=True, slots=True)
class PromptPart:
    """A part of a section.

    Attributes:
        text: The text; its middle may be cut unless `is_indivisible`.
        render: Fills the template with the remaining text.
        is_indivisible: Half of it would be useless, as with programs.
    """

    text: str
    render: Callable[[str], str] = str
    is_indivisible: bool = False

    def __str__(self) -> str:
        return self.render(self.text)

    def shorten(self, excess: int, min_chars: int) -> "PromptPart | None":
        """Returns a copy shorter by about `excess` characters, or None if it cannot be shortened."""
        size = max(min_chars, len(self.text) - excess)
        if self.is_indivisible or size >= len(self.text):
            return None
        return replace(self, text=text_blocks.cut_middle(self.text, size))


@dataclass(frozen=True, slots=True)
class PromptSection:
    """Content of a placeholder: parts, most important first. The section with the lowest priority is cut first."""

    name: str
    parts: Sequence[PromptPart]
    priority: int


def fit_to_limit(
    sections: Sequence[PromptSection], assemble: Callable[[SectionTexts], str], limit: int, min_chars: int = 300
) -> tuple[str, Sequence[str]]:
    """Returns the prompt shortened to `limit` characters, and descriptions of the cuts.

    Parts are shortened to at least `min_chars` characters or removed, last parts of low-priority sections first. If
    nothing is left to cut, the prompt is longer than the limit.
    """
    remaining = {section.name: [(part, str(part)) for part in section.parts] for section in sections}
    cut = dict[str, str]()

    def assemble_remaining() -> str:
        return assemble({name: [text for _, text in parts] for name, parts in remaining.items()})

    text = assemble_remaining()
    for section in sorted(sections, key=lambda section: section.priority):
        parts = remaining[section.name]
        while len(text) > limit and parts:
            part, rendered = parts.pop()
            shortened = part.shorten(len(text) - limit, min_chars)
            if shortened is not None and len(str(shortened)) < len(rendered):
                parts.append((shortened, str(shortened)))
            part_name = f"{section.name} {len(parts) + (shortened is None)}"
            cut[part_name] = "in part" if shortened is not None else "left out"
            text = assemble_remaining()
    return text, [f"{name} {action}" for name, action in cut.items()]

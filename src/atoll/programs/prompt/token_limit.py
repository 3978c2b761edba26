"""Fits what a prompt could say into what the model can read."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from atoll.mutation import text_blocks

type SectionTexts = Mapping[str, Sequence[str]]

_TOKEN_PATTERN = re.compile(r"[A-Za-z]+|[0-9]|\n[ \t]*|[ \t]+|[\x21-\x7e]|[^\x00-\x7f]")
_LETTERS_PER_TOKEN = 3  # of a word that make a token, at least, but for the rarest


def estimate_tokens(text: str) -> int:
    """Returns about how many tokens a text has, rather too many: tokenizers differ, and none is at hand.

    A word counts one for every three letters; a digit, a mark and an indentation count one, letters of other alphabets
    two.
    """
    count = 0
    for piece in _TOKEN_PATTERN.findall(text):
        count += (
            -(-len(piece) // _LETTERS_PER_TOKEN) if piece.isalpha() and piece.isascii() else 1 + (not piece.isascii())
        )
    return count


@dataclass(frozen=True, slots=True)
class PromptPart:
    """Something that a prompt says.

    Attributes:
        text: What may be cut in the middle, unless `is_whole`.
        render: Puts it into its template; a fence is made anew around what is left.
        is_whole: Whether a part of it would be worth nothing, such as half a program.
    """

    text: str
    render: Callable[[str], str] = str
    is_indivisible: bool = False

    def __str__(self) -> str:
        return self.render(self.text)

    def shorten(self, excess: int, min_chars: int) -> "PromptPart | None":
        """Returns it with less in it by about `excess` characters, or None if that leaves too little."""
        size = max(min_chars, len(self.text) - excess)
        return (
            None
            if self.is_indivisible or size >= len(self.text)
            else replace(self, text=text_blocks.cut_middle(self.text, size))
        )


@dataclass(frozen=True, slots=True)
class PromptSection:
    """What fills a placeholder: parts, the most important first; of all pieces that of least priority is cut first."""

    name: str
    parts: Sequence[PromptPart]
    priority: int


def fit_to_limit(
    sections: Sequence[PromptSection], assemble: Callable[[SectionTexts], str], limit: int, min_chars: int = 300
) -> tuple[str, Sequence[str]]:
    """Returns the prompt of as much of the pieces as fits into `limit` characters, and the names of what was cut.

    The last part of the least piece is shortened, to no less than `shortest` characters, or left out, and so on
    upwards, until all fits or nothing is left to cut: then the prompt is longer than the limit.
    """
    remaining = {section.name: [(part, str(part)) for part in section.parts] for section in sections}
    cut = dict[str, str]()

    def assemble_remaining() -> str:
        return assemble({name: [text for _, text in parts] for name, parts in remaining.items()})

    text = assemble_remaining()
    for piece in sorted(sections, key=lambda section: section.priority):
        parts = remaining[piece.name]
        while len(text) > limit and parts:
            part, rendered = parts.pop()
            shortened = part.shorten(len(text) - limit, min_chars)
            if shortened is not None and len(str(shortened)) < len(rendered):
                parts.append((shortened, str(shortened)))
            place = f"{piece.name} {len(parts) + (shortened is None)}"
            cut[place] = "in part" if shortened is not None else "left out"
            text = assemble_remaining()
    return text, [f"{part_name} {action}" for part_name, action in cut.items()]

"""Fits what a prompt could say into what the model can read."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from atoll.mutation import cuts

type Texts = Mapping[str, Sequence[str]]

_PIECES = re.compile(r"[A-Za-z]+|[0-9]|\n[ \t]*|[ \t]+|[\x21-\x7e]|[^\x00-\x7f]")
_LETTERS = 3  # of a word that make a token, at least, but for the rarest


def tokens_of(text: str) -> int:
    """Returns about how many tokens a text has, rather too many: tokenizers differ, and none is at hand.

    A word counts one for every three letters; a digit, a mark and an indentation count one, letters of other alphabets
    two.
    """
    count = 0
    for piece in _PIECES.findall(text):
        count += -(-len(piece) // _LETTERS) if piece.isalpha() and piece.isascii() else 1 + (not piece.isascii())
    return count


@dataclass(frozen=True, slots=True)
class Part:
    """Something that a prompt says.

    Attributes:
        text: What may be cut in the middle, unless `is_whole`.
        render: Puts it into its template; a fence is made anew around what is left.
        is_whole: Whether a part of it would be worth nothing, such as half a program.
    """

    text: str
    render: Callable[[str], str] = str
    is_whole: bool = False

    def __str__(self) -> str:
        return self.render(self.text)

    def shorter(self, excess: int, shortest: int) -> "Part | None":
        """Returns it with less in it by about `excess` characters, or None if that leaves too little."""
        size = max(shortest, len(self.text) - excess)
        return None if self.is_whole or size >= len(self.text) else replace(self, text=cuts.middle_cut(self.text, size))


@dataclass(frozen=True, slots=True)
class Piece:
    """What fills a placeholder: parts, the most important first; of all pieces that of least priority is cut first."""

    name: str
    parts: Sequence[Part]
    priority: int


def fitted(
    pieces: Sequence[Piece], assemble: Callable[[Texts], str], limit: int, shortest: int = 300
) -> tuple[str, Sequence[str]]:
    """Returns the prompt of as much of the pieces as fits into `limit` characters, and the names of what was cut.

    The last part of the least piece is shortened, to no less than `shortest` characters, or left out, and so on
    upwards, until all fits or nothing is left to cut: then the prompt is longer than the limit.
    """
    kept = {piece.name: [(part, str(part)) for part in piece.parts] for piece in pieces}
    cut = dict[str, str]()

    def assembled() -> str:
        return assemble({name: [text for _, text in parts] for name, parts in kept.items()})

    text = assembled()
    for piece in sorted(pieces, key=lambda each: each.priority):
        parts = kept[piece.name]
        while len(text) > limit and parts:
            part, shown = parts.pop()
            shorter = part.shorter(len(text) - limit, shortest)
            if shorter is not None and len(str(shorter)) < len(shown):
                parts.append((shorter, str(shorter)))
            place = f"{piece.name} {len(parts) + (shorter is None)}"
            cut[place] = "in part" if shorter is not None else "left out"
            text = assembled()
    return text, [f"{place} {how}" for place, how in cut.items()]

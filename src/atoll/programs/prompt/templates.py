"""The texts around what a prompt shows, each by its name; a file of that name in a folder replaces it.

OpenEvolve's names and placeholders are understood. A placeholder that stands alone between two fences is data: its
fence becomes longer than any inside, so that nothing a candidate wrote can end it.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from pathlib import Path
from random import Random
from typing import NamedTuple

from atoll import errors, mutation
from atoll.candidate import EMPTY

VARIATIONS_FILE, FRAGMENTS_FILE = "variations.json", "fragments.json"

_FENCE = r"^`{3,}(?P<label>[^\n`]*)\n\{(?P<fenced>\w+)\}\n`{3,}[ \t]*$"
_TOKEN = re.compile(rf"{_FENCE}|\{{\{{|\}}\}}|\{{(?P<name>\w+)\}}", re.M)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SECTION = re.compile(r"^(?:#[^\n{]*\n+)?\{(\w+)\}(?:\n|\Z)", re.M)  # with its heading, where that is all of it
_EMPTY_FENCE = re.compile(r"^`{3,}[^\n`]*\n\{(\w+)\}\n`{3,}[ \t]*(?:\n|\Z)", re.M)
_BLANK_LINES = re.compile(r"\n{3,}")


class _TemplatePiece(NamedTuple):
    """A stretch of a template: as it is written, and the placeholder that it is, in a fence or not."""

    text: str
    name: str | None = None
    label: str | None = None

    def render(self, values: Mapping[str, str]) -> str:
        if self.name is None or self.name not in values:
            return self.text
        if self.label is None:
            return values[self.name]
        label = _PLACEHOLDER.sub(lambda match: values.get(match[1], ""), self.label)
        return mutation.fence(values[self.name], label)


@dataclass(frozen=True, slots=True)
class Templates:
    """Templates by name.

    Attributes:
        texts: As they are read.
        variations: What a placeholder may say, one of several drawn for each prompt.
    """

    texts: Mapping[str, str]
    variations: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def read(cls, folder: Path | None = None, overrides: Mapping[str, str] = EMPTY) -> "Templates":
        """Reads ours, and those that a folder puts in their place, and what is said by name in place of both.

        Raises:
            SetupError: The folder, or a file in it, cannot be read, or there is no template of such a name.
        """
        default_folder = Path(str(resources.files("atoll.programs.prompt") / "texts"))
        texts, variations = _read_texts(default_folder), _read_variations(default_folder / VARIATIONS_FILE)
        if folder is not None:
            if not folder.is_dir():
                raise errors.SetupError(f"There is no folder {folder}, which programs.template_dir names.")
            texts |= _read_texts(folder)
            variations |= _read_variations(folder / VARIATIONS_FILE) | _read_variations(folder / FRAGMENTS_FILE)
        if unknown_names := [name for name in overrides if name not in texts]:
            raise errors.SetupError(
                f"programs.templates names {unknown_names[0]!r:.40}, which is no template: there are {', '.join(texts)}."
            )
        return cls({**texts, **overrides}, variations)

    def draw_variations(self, rng: Random) -> Mapping[str, str]:
        """Returns one variation for each placeholder that has some."""
        return {name: rng.choice(options) for name, options in self.variations.items()}

    def fill(self, name: str, values: Mapping[str, str]) -> str:
        """Returns a template with its placeholders filled; one that has no value stays as it is written.

        Values are put in once, so a brace in what a program says means nothing. A line, a fence or a section that
        holds nothing but an empty value goes.
        """
        empty = frozenset(key for key, value in values.items() if not value)
        return "".join(piece.render(values) for piece in _parse_template(self.texts[name], empty)).strip("\n")


@lru_cache(maxsize=1024)  # taking a template apart takes longer than filling it
def _parse_template(text: str, empty: frozenset[str]) -> Sequence[_TemplatePiece]:
    """Takes a template apart, without what holds nothing but an empty value."""

    def drop_if_empty(match: re.Match[str]) -> str:
        return "" if match[1] in empty else match[0]

    text = _BLANK_LINES.sub("\n\n", _SECTION.sub(drop_if_empty, _EMPTY_FENCE.sub(drop_if_empty, text)))
    pieces, end = list[_TemplatePiece](), 0
    for found in _TOKEN.finditer(text):
        pieces.append(_TemplatePiece(text[end : found.start()]))
        name, end = found["fenced"] or found["name"], found.end()
        pieces.append(
            _TemplatePiece(found[0] if name else found[0][0], name, found["label"] if found["fenced"] else None)
        )
    return [*pieces, _TemplatePiece(text[end:])]


def _read_texts(folder: Path) -> dict[str, str]:
    try:
        return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.txt"))}
    except (OSError, ValueError) as error:
        raise errors.SetupError(f"The templates in {folder} cannot be read: {error}.") from error


def _read_variations(file: Path) -> dict[str, Sequence[str]]:
    """Reads words by name: one text, or several of which one is drawn."""
    if not file.is_file():
        return {}
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        options_by_name = {
            str(name): [options] if isinstance(options, str) else list(options) for name, options in data.items()
        }
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise errors.SetupError(f"{file} holds no texts by name: write a JSON object of texts or lists.") from error
    return {
        name: options
        for name, options in options_by_name.items()
        if options and all(isinstance(option, str) for option in options)
    }

"""Prompt templates by name; files of the same name in the user's folder replace them.

OpenEvolve's names, placeholders and fragments work. A placeholder alone in a fenced block is data: the fence is made
longer than any fence inside, so that a candidate's text cannot end it.
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
# Fragments of OpenEvolve that the sections of a prompt use. Any other is the value of a placeholder of its name.
FRAGMENTS = (
    *("fitness_improved", "fitness_declined", "fitness_stable", "artifact_title", "inspiration_type_diverse"),
    *("attempt_all_metrics_improved", "attempt_all_metrics_regressed", "attempt_mixed_metrics"),
)

_FENCE = r"^`{3,}(?P<label>[^\n`]*)\n\{(?P<fenced>\w+)\}\n`{3,}[ \t]*$"
_TOKEN = re.compile(rf"{_FENCE}|\{{\{{|\}}\}}|\{{(?P<name>\w+)\}}", re.M)
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
_SECTION = re.compile(r"^(?:#[^\n{]*\n+)?\{(\w+)\}(?:\n|\Z)", re.M)  # with a heading that has no other content
_EMPTY_FENCE = re.compile(r"^`{3,}[^\n`]*\n\{(\w+)\}\n`{3,}[ \t]*(?:\n|\Z)", re.M)
_BLANK_LINES = re.compile(r"\n{3,}")


class _TemplatePiece(NamedTuple):
    """A piece of a template: literal text, or a placeholder, possibly in a fence."""

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
        texts: Templates by name.
        variations: Alternative texts of a placeholder, one drawn for each prompt.
    """

    texts: Mapping[str, str]
    variations: Mapping[str, Sequence[str]] = field(default_factory=dict)

    @classmethod
    def read(
        cls,
        folder: Path | None = None,
        overrides: Mapping[str, str] = EMPTY,
        variations: Mapping[str, Sequence[str]] = EMPTY,
    ) -> "Templates":
        """Reads our templates and variations, replaced by those of the folder, replaced by the given ones.

        Raises:
            SetupError: The folder or a file cannot be read, or an override has an unknown name.
        """
        default_folder = Path(str(resources.files("atoll.programs.prompt") / "texts"))
        texts, all_variations = _read_texts(default_folder), _read_variations(default_folder / VARIATIONS_FILE)
        if folder is not None:
            if not folder.is_dir():
                raise errors.SetupError(f"Folder {folder} of programs.template_dir not found.")
            texts |= _read_texts(folder)
            all_variations |= _read_variations(folder / VARIATIONS_FILE) | _read_variations(folder / FRAGMENTS_FILE)
        if unknown_names := [name for name in overrides if name not in texts]:
            raise errors.SetupError(
                f"programs.templates has no template {unknown_names[0]!r:.40}; use one of {', '.join(texts)}."
            )
        given_variations = {name: options for name, options in variations.items() if options}
        return cls({**texts, **overrides}, {**all_variations, **given_variations})

    def draw_variations(self, rng: Random) -> Mapping[str, str]:
        """Returns a random variation for each placeholder that has several."""
        return {name: rng.choice(options) for name, options in self.variations.items()}

    def format_fragment(self, name: str, default: str, **values: float | None) -> str:
        """Returns a fragment with its values, or the default if it is missing or needs other values."""
        try:
            return self.variations[name][0].format(**values)
        except (LookupError, ValueError, TypeError, AttributeError):
            return default

    def fill(self, name: str, values: Mapping[str, str]) -> str:
        """Fills the placeholders of a template; placeholders without a value stay.

        Values are inserted once, so braces in a program have no effect. Lines, fences and sections with only an empty
        value are removed.
        """
        empty = frozenset(key for key, value in values.items() if not value)
        return "".join(piece.render(values) for piece in _parse_template(self.texts[name], empty)).strip("\n")


@lru_cache(maxsize=1024)  # parsing takes longer than filling
def _parse_template(text: str, empty: frozenset[str]) -> Sequence[_TemplatePiece]:
    """Parses a template, without parts that have only an empty value."""

    def drop_if_empty(match: re.Match[str]) -> str:
        return "" if match[1] in empty else match[0]

    text = _BLANK_LINES.sub("\n\n", _SECTION.sub(drop_if_empty, _EMPTY_FENCE.sub(drop_if_empty, text)))
    pieces, end = list[_TemplatePiece](), 0
    for match in _TOKEN.finditer(text):
        pieces.append(_TemplatePiece(text[end : match.start()]))
        name, end = match["fenced"] or match["name"], match.end()
        label = match["label"] if match["fenced"] else None
        pieces.append(_TemplatePiece(match[0] if name else match[0][0], name, label))
    return [*pieces, _TemplatePiece(text[end:])]


def find_unused_fragments(folder: Path) -> Sequence[str]:
    """Returns the fragments of a template folder that neither a section nor a placeholder uses."""
    try:
        texts = {**Templates.read().texts, **_read_texts(folder)}
        names = _read_variations(folder / FRAGMENTS_FILE)
    except errors.SetupError:
        return ()  # a run that needs the templates reports it
    return [name for name in names if name not in FRAGMENTS and not any(f"{{{name}}}" in t for t in texts.values())]


def _read_texts(folder: Path) -> dict[str, str]:
    try:
        return {file.stem: file.read_text(encoding="utf-8") for file in sorted(folder.glob("*.txt"))}
    except (OSError, ValueError) as error:
        raise errors.SetupError(f"The templates in {folder} cannot be read: {error}.") from error


def _read_variations(file: Path) -> dict[str, Sequence[str]]:
    """Reads texts by name: one text, or several to draw from."""
    if not file.is_file():
        return {}
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
        options_by_name = {
            str(name): [options] if isinstance(options, str) else list(options) for name, options in data.items()
        }
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise errors.SetupError(f"{file} is not a JSON object of texts or lists of texts: fix it.") from error
    return {
        name: options
        for name, options in options_by_name.items()
        if options and all(isinstance(option, str) for option in options)
    }

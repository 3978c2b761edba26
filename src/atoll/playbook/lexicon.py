"""Which English words say the same in a playbook, which say the contrary, and which say next to nothing.

The words are in `lexicon.txt`; a word that could mean two things is left out there, or read in both ways.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import resources


def _read_sections() -> Mapping[str, Sequence[str]]:
    text = resources.files("atoll.playbook").joinpath("lexicon.txt").read_text(encoding="utf-8")
    sections: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if name := re.match(r"\[(\w+)\]", line):
            lines = sections.setdefault(name[1], [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return sections


def _parse_table(lines: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return {name: tuple(phrases.split(", ")) for name, _, phrases in (line.partition(" = ") for line in lines)}


def _parse_items(lines: Sequence[str]) -> Sequence[str]:
    return tuple(item.strip() for line in lines for item in line.split(","))


def _parse_pairs(lines: Sequence[str]) -> Sequence[tuple[str, str]]:
    return tuple((first, second) for first, second in (item.split() for item in _parse_items(lines)))


_SECTIONS = _read_sections()
CONCEPTS = _parse_table(_SECTIONS["concepts"])  # a minus before the name: these words deny it
CONNECTIVES = _parse_table(_SECTIONS["joints"])
OPPOSITES = _parse_pairs(_SECTIONS["opposites"])
LOCATIONS = tuple(" ".join(_SECTIONS["places"]).split())
FILLER_WORDS = tuple(" ".join(_SECTIONS["light"]).split())
EMPTY_PHRASES = _parse_items(_SECTIONS["empty"])
AMBIGUOUS = {name: tuple(reading.replace("-", "") for reading in readings) for name, readings in _parse_table(_SECTIONS["unsure"]).items()}
IRREGULAR_FORMS = dict(_parse_pairs(_SECTIONS["irregular"]))
NUMBER_WORDS = dict(_parse_pairs(_SECTIONS["numbers"]))
SECONDS_PER_UNIT = {"second": 1, "minute": 60, "hour": 3600}

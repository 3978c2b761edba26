"""Which English words say the same in a playbook, which say the contrary, and which say next to nothing.

The words are in `lexicon.txt`; a word that could mean two things is left out there, or read in both ways.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import resources


def _sections() -> Mapping[str, Sequence[str]]:
    text = resources.files("atoll.playbook").joinpath("lexicon.txt").read_text(encoding="utf-8")
    found: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in text.splitlines():
        if name := re.match(r"\[(\w+)\]", line):
            lines = found.setdefault(name[1], [])
        elif line and not line.startswith("#"):
            lines.append(line)
    return found


def _table(lines: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return {name: tuple(said.split(", ")) for name, _, said in (line.partition(" = ") for line in lines)}


def _items(lines: Sequence[str]) -> Sequence[str]:
    return tuple(item.strip() for line in lines for item in line.split(","))


def _pairs(lines: Sequence[str]) -> Sequence[tuple[str, str]]:
    return tuple((one, other) for one, other in (item.split() for item in _items(lines)))


_found = _sections()
CONCEPTS = _table(_found["concepts"])  # a minus before the name: these words deny it
JOINTS = _table(_found["joints"])
OPPOSITES = _pairs(_found["opposites"])
PLACES = tuple(" ".join(_found["places"]).split())
LIGHT = tuple(" ".join(_found["light"]).split())
EMPTY = _items(_found["empty"])
UNSURE = {name: tuple(each.replace("-", "") for each in ways) for name, ways in _table(_found["unsure"]).items()}
IRREGULAR = dict(_pairs(_found["irregular"]))
NUMBERS = dict(_pairs(_found["numbers"]))
SECONDS = {"second": 1, "minute": 60, "hour": 3600}

"""Texts of runs and candidates, made fit to look at."""

import difflib
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

# Control characters but for the line feed and the tab, half surrogates, and marks that turn the reading direction.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
_BARE = re.compile(r"[\w-]+", re.ASCII)  # a key that TOML wants no quotes for
_CONTEXT = 3  # lines around a change


def visible(text: str) -> str:
    r"""Returns a text with what cannot be seen spelled out, an escape as `\x1b`.

    A candidate is somebody else's text: printed as it is, it could take over a terminal or pose as another program.
    """
    return _HIDDEN.sub(lambda found: _spelled(ord(found[0])), text)


def _spelled(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def gist(text: str, length: int = 200) -> str:
    """Returns the beginning of a text on one line."""
    flat = visible(" ".join(text[: 4 * length].split()))
    return flat if len(flat) <= length and len(text) <= 4 * length else f"{flat[: length - 1]}…"


def news(new: str, old: str, length: int = 200) -> str:
    """Returns on one line what a text has that another has not; of equal texts their gist."""
    known = {each.strip() for each in old.split("\n")}
    fresh = [each.strip() for each in new.split("\n") if each.strip() not in known]
    return gist("; ".join(each for each in fresh if each) or new, length)


def line(text: str) -> str:
    """Returns the first line of a text that says anything."""
    return next((each.strip() for each in text.splitlines() if each.strip()), "")


def number(value: float | None) -> str:
    """Returns a score for people: six digits tell two good ones apart."""
    return "-" if value is None else f"{value:.6g}"


def data(facts: Mapping[str, Any]) -> str:
    """Returns small facts in one line, `name=value` each."""
    return " ".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in facts.items())


def settings(config: Mapping[str, Any]) -> Iterator[str]:
    """Yields a configuration as lines of TOML; what is not set is left out."""
    yield from _keys({name: value for name, value in config.items() if not isinstance(value, Mapping)})
    for name, section in config.items():
        if isinstance(section, Mapping):
            yield ""
            yield f"[{name}]"
            yield from _keys(section)


def _keys(section: Mapping[str, Any]) -> Iterator[str]:
    for name, value in section.items():
        if value is not None:
            key = name if _BARE.fullmatch(name) else json.dumps(name, ensure_ascii=False)
            yield f"{visible(key)} = {visible(json.dumps(value, ensure_ascii=False))}"


def patch(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    """Yields the lines of a unified diff, without line ends; none if the texts are equal.

    Whether a text ends in a line end is no difference: candidates are texts, not files.
    """
    yield from difflib.unified_diff(_lines(old), _lines(new), old_name, new_name, n=_CONTEXT, lineterm="")


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")

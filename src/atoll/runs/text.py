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
_BARE_KEY = re.compile(r"[\w-]+", re.ASCII)  # a key that TOML wants no quotes for
_CONTEXT_LINES = 3  # lines around a change


def escape_control(text: str) -> str:
    r"""Returns a text with what cannot be seen spelled out, an escape as `\x1b`.

    A candidate is somebody else's text: printed as it is, it could take over a terminal or pose as another program.
    """
    return _HIDDEN.sub(lambda match: _escape_code(ord(match[0])), text)


def _escape_code(code: int) -> str:
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def format_one_line(text: str, length: int = 200) -> str:
    """Returns the beginning of a text on one line."""
    flat = escape_control(" ".join(text[: 4 * length].split()))
    return flat if len(flat) <= length and len(text) <= 4 * length else f"{flat[: length - 1]}…"


def find_new_lines(new: str, old: str, length: int = 200) -> str:
    """Returns on one line what a text has that another has not; of equal texts their gist."""
    old_lines = {line.strip() for line in old.split("\n")}
    new_lines = [line.strip() for line in new.split("\n") if line.strip() not in old_lines]
    return format_one_line("; ".join(line for line in new_lines if line) or new, length)


def get_first_line(text: str) -> str:
    """Returns the first line of a text that says anything."""
    return next((line.strip() for line in text.splitlines() if line.strip()), "")


def format_number(value: float | None) -> str:
    """Returns a score for people: six digits tell two good ones apart."""
    return "-" if value is None else f"{value:.6g}"


def format_pairs(values: Mapping[str, Any]) -> str:
    """Returns small facts in one line, `name=value` each."""
    return " ".join(f"{name}={value if isinstance(value, str) else json.dumps(value)}" for name, value in values.items())


def format_settings(stored_config: Mapping[str, Any]) -> Iterator[str]:
    """Yields a configuration as lines of TOML; what is not set is left out."""
    yield from _format_keys({name: value for name, value in stored_config.items() if not isinstance(value, Mapping)})
    for name, section in stored_config.items():
        if isinstance(section, Mapping):
            yield ""
            yield f"[{name}]"
            yield from _format_keys(section)


def _format_keys(section: Mapping[str, Any]) -> Iterator[str]:
    for name, value in section.items():
        if value is not None:
            key = name if _BARE_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
            yield f"{escape_control(key)} = {escape_control(json.dumps(value, ensure_ascii=False))}"


def iter_diff_lines(old: str, new: str, old_name: str, new_name: str) -> Iterator[str]:
    """Yields the lines of a unified diff, without line ends; none if the texts are equal.

    Whether a text ends in a line end is no difference: candidates are texts, not files.
    """
    yield from difflib.unified_diff(_split_lines(old), _split_lines(new), old_name, new_name, n=_CONTEXT_LINES, lineterm="")


def _split_lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n")

"""What the command line says in short: changes of single keys, and budgets."""

import re
import tomllib
from collections.abc import Mapping
from typing import Any

from atoll import control, errors

type Sections = Mapping[str, Any]

NO_SECTION = ""  # the section of keys that were named without one


def parse_set(text: str) -> Sections:
    """Reads `section.key=value`, the value as in TOML; what is no TOML is a text.

    `key=value` alone stands in the section `BARE`: the system's own models say later which one is meant.

    Raises:
        SetupError: There is no `=`, or no key.
    """
    path, equals, value = text.partition("=")
    section, dot, key = path.strip().rpartition(".")
    if not equals or not key or (dot and not section):
        raise errors.SetupError(f"--set {text} is not understood: write --set section.key=value, e.g. run.seed=7.")
    try:
        parsed = tomllib.loads(f"value = {value.strip()}")["value"]
    except tomllib.TOMLDecodeError:
        parsed = value.strip()
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"The value of --set {path.strip()} cannot be read: {error}.") from error
    return {section: {key: parsed}}


_AMOUNT_PATTERNS = {
    "seconds": re.compile(r"(\d{1,12}(?:\.\d+)?)\s*(s|m|min|h)"),
    "usd": re.compile(r"\$\s*(\d{1,12}(?:\.\d+)?)()"),
    "evaluations": re.compile(r"(\d{1,18})\s*(evals?|evaluations?)"),
    "calls": re.compile(r"(\d{1,18})\s*(calls?)"),
    "tokens": re.compile(r"(\d{1,18})\s*(tokens?)"),
    "iterations": re.compile(r"(\d{1,18})\s*(its?|iterations?|steps?)"),
}
_SECONDS_PER_UNIT = {"s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def parse_budget(text: str | None) -> control.Budget:
    """Reads `60s`, `$1`, `500evals`, `100calls`, `20000tokens`, or several with commas.

    Time is `10m` or `1h` too, and `50steps` limits the steps of a run.

    Raises:
        SetupError: It is none of these.
    """
    limits: dict[str, Any] = {}
    for part in (text or "").split(","):
        if part.strip():
            limits |= _parse_amount(part.strip())
    if text is not None and not limits:
        raise errors.SetupError("The budget is empty: write e.g. 60s, '$1' or 500evals.")
    return control.Budget(**limits)


def _parse_amount(part: str) -> Mapping[str, float | int]:
    for name, pattern in _AMOUNT_PATTERNS.items():
        if match := pattern.fullmatch(part):
            amount, unit = match.groups()
            if name in ("seconds", "usd"):
                return {name: float(amount) * _SECONDS_PER_UNIT.get(unit, 1.0)}
            return {name: int(amount)}
    raise errors.SetupError(f"A budget of {part!r} is not understood: write e.g. 60s, '$1' or 500evals.")

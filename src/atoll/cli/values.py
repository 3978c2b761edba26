"""What people type: values, files of values, times, guardrails; and who they are."""

import getpass
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atoll import errors

UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def value(said: str) -> Any:
    """Reads JSON, or what a file holds for @FILE; all else is a text.

    Raises:
        SetupError: There is no such file.
    """
    if said.startswith("@"):
        try:
            return Path(said[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise errors.SetupError(f"{said[1:]} cannot be read: {error}.") from error
    try:
        return json.loads(said)
    except (ValueError, RecursionError):
        return said


def mapping(file: Path) -> dict[str, Any]:
    """Reads a JSON object from a file.

    Raises:
        SetupError: It cannot be read, or holds something else.
    """
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.SetupError(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"{file} holds no JSON: {error}.") from None
    if not isinstance(found, dict):
        raise errors.SetupError(f"{file} holds no JSON object: write {{...}}.")
    return found


def author(said: str | None) -> str:
    """Returns who sits here: whom they name, else as whom the machine knows them.

    Raises:
        SetupError: Nobody knows.
    """
    try:
        return said or getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        raise errors.SetupError("Nobody knows who you are: say it with --author.") from None


def check_reason(said: str) -> None:
    """Asks for a reason before anything is made.

    Raises:
        SetupError: There is none.
    """
    if not said.strip():
        raise errors.SetupError("A change needs a reason: say why with -m.")


def refuse_secrets(*said: Any) -> None:
    """Looks for keys, tokens and passwords in what would be kept for good.

    Raises:
        SetupError: There is one.
    """
    from atoll import secrets  # its patterns are compiled when they are needed

    texts = (each if isinstance(each, str) else json.dumps(each, ensure_ascii=False) for each in said)
    if found := [each.kind for text in texts for each in secrets.find(text)]:
        raise errors.SetupError(
            f"This looks like a secret ({', '.join(dict.fromkeys(found))}), and what is kept here stays: take it out, "
            "and name a variable instead."
        )


def seconds(said: str) -> float:
    """Reads `7d`, `12h`, `30m` or `90s`.

    Raises:
        SetupError: It is none of these.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", said.strip())
    if not found:
        raise errors.SetupError(f"{said!r} is no time: write 7d, 12h, 30m or 90s.")
    return float(found[1]) * UNITS[found[2]]


def moment(said: str) -> datetime:
    """Reads a day or a moment, in UTC where no zone is named.

    Raises:
        SetupError: It is none.
    """
    try:
        found = datetime.fromisoformat(said)
    except ValueError as error:
        raise errors.SetupError(f"{said!r} is no moment: write 2026-04-18 or 2026-04-18T12:00Z.") from error
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found


def guardrail(said: str) -> tuple[str, float, bool]:
    """Reads `METRIC`, `METRIC:MARGIN` or `METRIC:MARGIN:lower`; True: lower is better.

    Raises:
        SetupError: It is none of these.
    """
    metric, *rest = said.split(":")
    try:
        margin = float(rest[0]) if rest else 0.0
    except ValueError:
        margin = -1.0
    if not metric or margin < 0 or rest[1:] not in ([], ["lower"], ["higher"]):
        raise errors.SetupError(f"{said!r} is no guardrail: write METRIC:MARGIN, or METRIC:MARGIN:lower for costs.")
    return metric, margin, rest[1:] == ["lower"]


def shares(said: str) -> Sequence[float]:
    """Reads `0.01,0.05,0.25`.

    Raises:
        SetupError: It is no list of numbers.
    """
    try:
        return tuple(float(each) for each in said.split(","))
    except ValueError as error:
        raise errors.SetupError(f"{said!r} is no list of shares: write 0.01,0.05,0.25.") from error

"""Parsing of arguments: values, files, times, guardrails and author names."""

import getpass
import json
import os
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atoll import errors

SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_value(text: str) -> Any:
    """Parses JSON; `@FILE` reads a file as text; other arguments are strings.

    Raises:
        SetupError: The file cannot be read.
    """
    if text.startswith("@"):
        try:
            return Path(text[1:]).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise errors.SetupError(f"{text[1:]} cannot be read: {error}.") from error
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def load_mapping(file: Path) -> dict[str, Any]:
    """Reads a JSON object from a file.

    Raises:
        SetupError: It cannot be read, or is not a JSON object.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.SetupError(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"{file} is not valid JSON: {error}.") from None
    if not isinstance(data, dict):
        raise errors.SetupError(f"{file} is not a JSON object. Write {{...}}.")
    return data


def resolve_author(name: str | None) -> str:
    """Returns the author name: the given one, the name in ATOLL_TOKEN, or the user name.

    Raises:
        SetupError: Both are missing.
    """
    if token := os.environ.get("ATOLL_TOKEN"):
        return name or token.partition(":")[0]
    try:
        return name or getpass.getuser()
    except (OSError, KeyError):  # some containers have users without names
        raise errors.SetupError("Your user name is unknown. Pass --author NAME.") from None


def check_reason(reason: str) -> None:
    """Raises SetupError if the reason is empty."""
    if not reason.strip():
        raise errors.SetupError("A change needs a reason. Pass -m TEXT.")


def refuse_secrets(*contents: Any) -> None:
    """Raises SetupError if a text to be stored contains a key, token or password."""
    from atoll import secret_scanner  # compiles its patterns at import

    texts = (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) for content in contents)
    if kinds := [match.kind for text in texts for match in secret_scanner.find_secrets(text)]:
        raise errors.SetupError(
            f"This looks like a secret ({', '.join(dict.fromkeys(kinds))}), and stored values cannot be deleted. Name "
            "an environment variable instead."
        )


def parse_seconds(text: str) -> float:
    """Parses `7d`, `12h`, `30m` or `90s`. Raises SetupError for other texts."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if not match:
        raise errors.SetupError(f"{text!r} is not a duration. Write 7d, 12h, 30m or 90s.")
    return float(match[1]) * SECONDS_PER_UNIT[match[2]]


def parse_time(text: str) -> datetime:
    """Parses a date or time, in UTC by default. Raises SetupError for other texts."""
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise errors.SetupError(f"{text!r} is not a time. Write 2026-04-18 or 2026-04-18T12:00Z.") from error
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed


def parse_shares(text: str) -> Sequence[float]:
    """Parses `0.01,0.05,0.25`. Raises SetupError for other texts."""
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError as error:
        raise errors.SetupError(f"{text!r} is not a list of shares. Write 0.01,0.05,0.25.") from error

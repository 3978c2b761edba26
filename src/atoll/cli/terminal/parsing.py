"""What people type: values, files of values, times, guardrails; and who they are."""

import getpass
import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from atoll import errors

SECONDS_PER_UNIT = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def parse_value(text: str) -> Any:
    """Reads JSON, or what a file holds for @FILE; all else is a text.

    Raises:
        SetupError: There is no such file.
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
        SetupError: It cannot be read, or holds something else.
    """
    try:
        data = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise errors.SetupError(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError) as error:
        raise errors.SetupError(f"{file} holds no JSON: {error}.") from None
    if not isinstance(data, dict):
        raise errors.SetupError(f"{file} holds no JSON object: write {{...}}.")
    return data


def resolve_author(name: str | None) -> str:
    """Returns who sits here: whom they name, else as whom the machine knows them.

    Raises:
        SetupError: Nobody knows.
    """
    try:
        return name or getpass.getuser()
    except (OSError, KeyError):  # a user without a name, as in some containers
        raise errors.SetupError("Nobody knows who you are: say it with --author.") from None


def check_reason(reason: str) -> None:
    """Asks for a reason before anything is made.

    Raises:
        SetupError: There is none.
    """
    if not reason.strip():
        raise errors.SetupError("A change needs a reason: say why with -m.")


def refuse_secrets(*contents: Any) -> None:
    """Looks for keys, tokens and passwords in what would be kept for good.

    Raises:
        SetupError: There is one.
    """
    from atoll import secret_scanner  # its patterns are compiled when they are needed

    texts = (content if isinstance(content, str) else json.dumps(content, ensure_ascii=False) for content in contents)
    if kinds := [match.kind for text in texts for match in secret_scanner.find_secrets(text)]:
        raise errors.SetupError(
            f"This looks like a secret ({', '.join(dict.fromkeys(kinds))}), and what is kept here stays: take it out, "
            "and name a variable instead."
        )


def parse_seconds(text: str) -> float:
    """Reads `7d`, `12h`, `30m` or `90s`.

    Raises:
        SetupError: It is none of these.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", text.strip())
    if not match:
        raise errors.SetupError(f"{text!r} is no time: write 7d, 12h, 30m or 90s.")
    return float(match[1]) * SECONDS_PER_UNIT[match[2]]


def parse_time(text: str) -> datetime:
    """Reads a day or a moment, in UTC where no zone is named.

    Raises:
        SetupError: It is none.
    """
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError as error:
        raise errors.SetupError(f"{text!r} is no moment: write 2026-04-18 or 2026-04-18T12:00Z.") from error
    return parsed.replace(tzinfo=UTC) if parsed.tzinfo is None else parsed


def parse_guardrail(text: str) -> tuple[str, float, bool]:
    """Reads `METRIC`, `METRIC:MARGIN` or `METRIC:MARGIN:lower`; True: lower is better.

    Raises:
        SetupError: It is none of these.
    """
    metric, *options = text.split(":")
    try:
        margin = float(options[0]) if options else 0.0
    except ValueError:
        margin = -1.0
    if not metric or margin < 0 or options[1:] not in ([], ["lower"], ["higher"]):
        raise errors.SetupError(f"{text!r} is no guardrail: write METRIC:MARGIN, or METRIC:MARGIN:lower for costs.")
    return metric, margin, options[1:] == ["lower"]


def parse_shares(text: str) -> Sequence[float]:
    """Reads `0.01,0.05,0.25`.

    Raises:
        SetupError: It is no list of numbers.
    """
    try:
        return tuple(float(share) for share in text.split(","))
    except ValueError as error:
        raise errors.SetupError(f"{text!r} is no list of shares: write 0.01,0.05,0.25.") from error

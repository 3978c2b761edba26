"""Files named for UTC days: `YYYY-MM-DD.jsonl`."""

import contextlib
import os
from collections.abc import Sequence
from datetime import date, datetime

from atoll.governed.logs.entry import to_utc

SUFFIX = ".jsonl"


def make_file_name(timestamp: datetime) -> str:
    """Returns the file name of the UTC day of a moment."""
    return f"{to_utc(timestamp).date().isoformat()}{SUFFIX}"


def parse_day(name: str) -> date | None:
    """Returns the day of a file name, None if it is none."""
    if not name.endswith(SUFFIX) or len(name) != len("2026-01-01") + len(SUFFIX):
        return None
    with contextlib.suppress(ValueError):
        return date.fromisoformat(name.removesuffix(SUFFIX))
    return None


def list_day_files(folder: str, since: date = date.min, until: date = date.max) -> Sequence[str]:
    """Returns the names of the files from one day to another, oldest first; none where there is no folder."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    dated_names = ((parse_day(name), name) for name in names)
    return [name for day, name in sorted((day, name) for day, name in dated_names if day and since <= day <= until)]

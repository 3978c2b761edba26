"""Where a page ends, as a text that only this server reads."""

import base64
import binascii
import json
import math
from typing import Any

from atoll import errors


def make_cursor(*position: Any) -> str:
    """Returns a place as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(position, allow_nan=False).encode()).decode().rstrip("=")


def parse_cursor(cursor: str, *types: type | tuple[type, ...]) -> list[Any]:
    """Reads a cursor back.

    Raises:
        SetupError: It is none of ours.
    """
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
        has_expected_length = isinstance(values, list) and len(values) == len(types)
        if has_expected_length and all(isinstance(value, kind) for value, kind in zip(values, types, strict=True)) and _fits_column(values):
            return list(values)
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise errors.SetupError("`after` is no place in this list: give what `next` said, or nothing.")


def _fits_column(values: list[Any]) -> bool:
    """Says whether every number fits into a column."""
    return all(math.isfinite(value) if isinstance(value, float) else abs(value) < 2**62 for value in values)

"""Where a page ends, as a text that only this server reads."""

import base64
import binascii
import json
import math
from typing import Any

from atoll import errors


def cursor(*place: Any) -> str:
    """Returns a place as a cursor."""
    return base64.urlsafe_b64encode(json.dumps(place, allow_nan=False).encode()).decode().rstrip("=")


def place(cursor: str, *kinds: type | tuple[type, ...]) -> list[Any]:
    """Reads a cursor back.

    Raises:
        SetupError: It is none of ours.
    """
    try:
        found = json.loads(base64.urlsafe_b64decode(cursor.encode("ascii") + b"=" * (-len(cursor) % 4)))
        fits = isinstance(found, list) and len(found) == len(kinds)
        if fits and all(isinstance(each, kind) for each, kind in zip(found, kinds, strict=True)) and _is_small(found):
            return list(found)
    except (ValueError, binascii.Error, RecursionError):
        pass
    raise errors.SetupError("`after` is no place in this list: give what `next` said, or nothing.")


def _is_small(found: list[Any]) -> bool:
    """Says whether every number fits into a column."""
    return all(math.isfinite(each) if isinstance(each, float) else abs(each) < 2**62 for each in found)

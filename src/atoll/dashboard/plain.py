"""Data as an answer can hold it: finite numbers, whole characters, and no more text than a page can bear."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

MAX_VALUE_CHARS = 100_000  # of one text in an answer
MAX_ITEMS = 20_000  # of one list in an answer
TRUNCATION_NOTE = "\n… cut here: {left:,} characters more"


def limit_text(value: str, max_chars: int = MAX_VALUE_CHARS) -> str:
    """Returns a text that can be sent: half characters are replaced, and a long one is cut, which it says."""
    limited = value if len(value) <= max_chars else value[:max_chars] + TRUNCATION_NOTE.format(left=len(value) - max_chars)
    return limited.encode("utf-8", "replace").decode("utf-8")


def to_json_data(value: Any, max_chars: int = MAX_VALUE_CHARS) -> Any:
    """Returns a value as plain JSON: what is not finite is null, what is no JSON is shown as text."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str():
            return limit_text(value, max_chars)
        case Mapping():
            return {limit_text(str(name), 1000): to_json_data(item, max_chars) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [to_json_data(item, max_chars) for item, _ in zip(value, range(MAX_ITEMS), strict=False)]
        case _:
            return limit_text(str(value), max_chars)


class RequestBody(pydantic.BaseModel):
    """What somebody sends: known fields only."""

    model_config = pydantic.ConfigDict(extra="forbid")


Reason = Annotated[str, pydantic.Field(min_length=1, max_length=2000, description="Why; compulsory, and kept.")]
AuthorName = Annotated[str, pydantic.Field(min_length=1, max_length=200, description="Who decides.")]


class AuthorAndReason(RequestBody):
    """Who changes something, and why."""

    by: AuthorName
    reason: Reason

"""Data as an answer can hold it: finite numbers, whole characters, and no more text than a page can bear."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import pydantic

MAX_CHARS = 100_000  # of one text in an answer
MAX_ITEMS = 20_000  # of one list in an answer
CUT = "\n… cut here: {left:,} characters more"


def text(said: str, most: int = MAX_CHARS) -> str:
    """Returns a text that can be sent: half characters are replaced, and a long one is cut, which it says."""
    cut = said if len(said) <= most else said[:most] + CUT.format(left=len(said) - most)
    return cut.encode("utf-8", "replace").decode("utf-8")


def data(value: Any, most: int = MAX_CHARS) -> Any:
    """Returns a value as plain JSON: what is not finite is null, what is no JSON is shown as text."""
    match value:
        case None | bool() | int():
            return value
        case float():
            return value if math.isfinite(value) else None
        case str():
            return text(value, most)
        case Mapping():
            return {text(str(name), 1000): data(each, most) for name, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [data(each, most) for each, _ in zip(value, range(MAX_ITEMS), strict=False)]
        case _:
            return text(str(value), most)


class Body(pydantic.BaseModel):
    """What somebody sends: known fields only."""

    model_config = pydantic.ConfigDict(extra="forbid")


Reason = Annotated[str, pydantic.Field(min_length=1, max_length=2000, description="Why; compulsory, and kept.")]
Name = Annotated[str, pydantic.Field(min_length=1, max_length=200, description="Who decides.")]


class Said(Body):
    """Who changes something, and why."""

    by: Name
    reason: Reason

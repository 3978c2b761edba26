"""Who is acting: the author of changes that name none."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

NOBODY = "anonymous"

_actor: ContextVar[str] = ContextVar("actor", default=NOBODY)


def actor() -> str:
    return _actor.get()


@contextmanager
def acting(name: str) -> Iterator[None]:
    """Makes somebody the author of what the block changes, in this thread or task."""
    before = _actor.set(name)
    try:
        yield
    finally:
        _actor.reset(before)

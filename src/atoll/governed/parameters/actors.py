"""Who is acting: the author of changes that name none."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

ANONYMOUS = "anonymous"

_current_author: ContextVar[str] = ContextVar("actor", default=ANONYMOUS)


def get_current_author() -> str:
    return _current_author.get()


@contextmanager
def author_context(author: str) -> Iterator[None]:
    """Makes somebody the author of what the block changes, in this thread or task."""
    token = _current_author.set(author)
    try:
        yield
    finally:
        _current_author.reset(token)

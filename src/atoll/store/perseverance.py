"""Transactions that are tried again."""

from collections.abc import Callable

from atoll.store.refusals import Interrupted

TRIES = 8  # a deadlock has a winner every time; a connection that was lost is waited for by whoever begins


def persistently[T](work: Callable[[], T]) -> T:
    """Does a piece of work that is one transaction, again whenever it came to nothing.

    Raises:
        Interrupted: It came to nothing too often.
    """
    for _ in range(TRIES - 1):
        try:
            return work()
        except Interrupted:
            continue
    return work()

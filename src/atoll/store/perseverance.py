"""Transactions that are tried again."""

from collections.abc import Callable

from atoll.store.refusals import Interrupted

MAX_ATTEMPTS = 8  # a deadlock has a winner every time; a connection that was lost is waited for by whoever begins


def retry_transaction[T](transaction: Callable[[], T]) -> T:
    """Does a piece of work that is one transaction, again whenever it came to nothing.

    Raises:
        Interrupted: It came to nothing too often.
    """
    for _ in range(MAX_ATTEMPTS - 1):
        try:
            return transaction()
        except Interrupted:
            continue
    return transaction()

"""Parameters inside one process."""

from collections.abc import Callable
from datetime import datetime

from atoll import store
from atoll.governed.parameters.parameters import Check, Parameters
from atoll.store import ledger


class MemoryParameters(Parameters):
    """Parameters that end with the process; for tests, and for runs that leave nothing behind."""

    def __init__(self, *, check: Check | None = None, clock: Callable[[], datetime] = ledger.now) -> None:
        super().__init__(store.MemoryChangeLog(), check=check, clock=clock)

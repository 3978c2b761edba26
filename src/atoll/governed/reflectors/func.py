"""A function as a reflector."""

from collections.abc import Callable
from threading import Event

from atoll import errors
from atoll.governed import cancellation
from atoll.governed.replay.event import ReplayEvent


class FuncReflector:
    """Calls a function with every event.

    Args:
        fn: Compulsory.
        stop: Looked at before each call.
    """

    def __init__(self, fn: Callable[[ReplayEvent], object], *, stop: Event | None = None) -> None:
        if not callable(fn):
            raise errors.SetupError(f"A FuncReflector needs a function, not {fn!r}.")
        self._fn, self._stop = fn, stop

    @property
    def on_event(self) -> Callable[[ReplayEvent], object]:
        """What is called with every event: the function itself, where nobody can say stop.

        Raises:
            Cancelled: When called after it was told to stop.
        """
        return self._fn if self._stop is None else self._call_unless_cancelled

    def _call_unless_cancelled(self, event: ReplayEvent) -> None:
        cancellation.check_cancelled(self._stop)
        self._fn(event)

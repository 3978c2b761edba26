"""A clock that stands still until somebody moves it."""

from threading import Lock

from atoll import errors


class FakeClock:
    """Returns seconds, as `time.monotonic` does."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._lock = Lock()

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Moves on.

        Raises:
            SetupError: The seconds are negative: no clock of a run goes back.
        """
        if seconds < 0:
            raise errors.SetupError(f"A clock cannot go back {-seconds} seconds.")
        with self._lock:
            self._now += seconds

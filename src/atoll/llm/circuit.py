"""What all who ask one server know about it together: when it wants a rest, and whether it is there at all."""

import time
from collections.abc import Callable

from atoll.llm.llm import LLMError
from atoll.llm.policy import RetryPolicy

_POLL_SECONDS = 0.02  # how often those who wait look again
_BUSY_STATUSES = (429, 503, 529)


class CircuitBreaker:
    """Holds tries back: all of them while the server wants a rest, all but one while it seems to be down.

    It holds plain numbers only and no lock, so a forked child just goes on with them; of two threads that enter in the
    same moment both may try a server that seems to be down, which harms nobody.
    """

    def __init__(self, policy: RetryPolicy, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy, self._clock = policy, clock
        self._failures = 0  # tries in a row, of all callers
        self._failing_since = 0.0
        self._pause_until, self._pause_count = 0.0, 0
        self._is_probing = False  # the one try of an open circuit is under way
        self._last_failure = ""

    @property
    def is_open(self) -> bool:
        return self._failures >= self._policy.trip_after

    def wait_to_start(self, jitter: float) -> None:
        """Returns when a try may start; whoever enters tells by `succeeded`, `failed` or `left` how it ended.

        Args:
            spread: From 0 to 1: those who were held back together shall not come back together.

        Raises:
            NoReply: The server has been down for too long.
        """
        while (seconds := self._get_wait_seconds()) > 0:
            max_wait = self._get_remaining_outage_seconds()
            time.sleep(min(seconds, max_wait) if self.is_open else seconds + jitter * self._policy.backoff_seconds)
        self._is_probing = self.is_open

    def record_success(self) -> None:
        """Notes a reply, or a refusal: somebody is there."""
        self._failures, self._pause_count, self._is_probing = 0, 0, False

    def record_failure(self, error: LLMError) -> None:
        """Notes a try that may succeed later."""
        now = self._clock()
        self._failing_since = self._failing_since if self._failures else now
        self._failures, self._is_probing, self._last_failure = self._failures + 1, False, str(error)
        pause = error.retry_seconds or 0.0
        if (error.status in _BUSY_STATUSES or self.is_open) and now >= self._pause_until:
            self._pause_count += 1  # those who flew together when it failed make one rest, not a longer one each
            pause = max(pause, self._policy.backoff_seconds * 2.0 ** min(self._pause_count - 1, 30))
        self._pause_until = max(self._pause_until, now + min(pause, self._policy.max_wait_seconds))

    def record_abandoned(self) -> None:
        """Notes a try that nobody waits for any more."""
        self._is_probing = False

    def _get_wait_seconds(self) -> float:
        if self.is_open and self._is_probing:
            return _POLL_SECONDS
        return self._pause_until - self._clock()

    def _get_remaining_outage_seconds(self) -> float:
        """Returns how long it is worth to wait for a server that is down."""
        seconds = self._clock() - self._failing_since
        if self.is_open and seconds >= self._policy.outage_seconds:
            message = f"{self._last_failure} It has been so for {seconds:.0f} seconds and {self._failures} requests."
            raise LLMError(message, is_transient=True, is_down=True)
        return self._policy.outage_seconds - seconds

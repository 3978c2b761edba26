"""What all who ask one server know about it together: when it wants a rest, and whether it is there at all."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from atoll import errors
from atoll.llm.base import LLMError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a try ends, when it is repeated and when a server is given up.

    Attributes:
        timeout_seconds: How long one try may take in all.
        retries: How often a try is repeated that failed for a busy, broken or unreachable server: never more than
            1 + retries requests for one prompt.
        backoff_seconds: The first pause before a repetition; each further one is twice as long.
        max_wait_seconds: The longest pause that a server may ask for (Retry-After); who wants a longer one is down.
        trip_after: Failed tries in a row, of all callers, after which only one at a time asks (an open circuit).
        outage_seconds: How long the circuit may stay open before the server is given up.

    Raises:
        SetupError: One is out of its range.
    """

    timeout_seconds: float = 60.0
    retries: int = 2
    backoff_seconds: float = 0.5
    max_wait_seconds: float = 60.0
    trip_after: int = 5
    outage_seconds: float = 120.0

    def __post_init__(self) -> None:
        check_range("timeout_seconds", self.timeout_seconds, above=0)
        for name in ("retries", "backoff_seconds", "max_wait_seconds", "outage_seconds"):
            check_range(name, getattr(self, name))
        check_range("trip_after", self.trip_after, above=0)


def check_range(name: str, value: float, above: float | None = None) -> float:
    """Returns a number that is in its range.

    Raises:
        SetupError: It is not.
    """
    if not math.isfinite(value) or (value < 0 if above is None else value <= above):
        raise errors.SetupError(f"{name} is {value}: give {'0 or more' if above is None else f'more than {above}'}.")
    return value


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

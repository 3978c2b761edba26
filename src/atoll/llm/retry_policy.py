"""Retries and circuit breaker, shared by all callers of one server."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

from atoll import errors
from atoll.evaluation import ZERO_COST
from atoll.llm.base import LLMError


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of the attempts of a call.

    Attributes:
        timeout_seconds: Time limit of one attempt.
        retries: Further attempts after a failure of the server or the network: at most 1 + retries requests per prompt.
        backoff_seconds: Pause before the first retry; each further pause is twice as long.
        max_wait_seconds: Longest pause that a server may request (Retry-After). Longer requests mean it is down.
        trip_after: Failed attempts in a row, of all callers, that open the circuit: then one call at a time is made.
        outage_seconds: Seconds until a server with an open circuit counts as down.

    Raises:
        SetupError: A value is out of range.
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
    """Returns the value if it is in range.

    Raises:
        SetupError: The value is out of range.
    """
    if not math.isfinite(value) or (value < 0 if above is None else value <= above):
        raise errors.SetupError(
            f"{name} is {value}. Set it to {'0 or more' if above is None else f'more than {above}'}."
        )
    return value


_POLL_SECONDS = 0.02  # how often waiting calls check again
_BUSY_STATUSES = (429, 503, 529)


class CircuitBreaker:
    """Delays attempts: all of them while the server requests a pause, all but one while it seems to be down.

    It uses no lock, so it works in a forked child. Two threads may both probe a server that is down; that is harmless.
    """

    def __init__(self, policy: RetryPolicy, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy, self._clock = policy, clock
        self._failures = 0  # attempts in a row, of all callers
        self._failing_since = 0.0
        self._pause_until, self._pause_count = 0.0, 0
        self._is_probing = False  # the one attempt of an open circuit is running
        self._last_failure = ""

    @property
    def is_open(self) -> bool:
        return self._failures >= self._policy.trip_after

    def wait_to_start(self, jitter: float) -> None:
        """Waits until an attempt may start. Afterwards call `record_success`, `record_failure` or `record_abandoned`.

        Args:
            jitter: From 0 to 1; spreads the calls that waited together.

        Raises:
            LLMError: The server has been down for too long.
        """
        while (seconds := self._get_wait_seconds()) > 0:
            max_wait = self._get_remaining_outage_seconds()
            time.sleep(min(seconds, max_wait) if self.is_open else seconds + jitter * self._policy.backoff_seconds)
        self._is_probing = self.is_open

    def record_success(self) -> None:
        """Records a response or a refusal: the server works."""
        self._failures, self._pause_count, self._is_probing = 0, 0, False

    def record_failure(self, error: LLMError) -> None:
        """Records a failure that may pass."""
        now = self._clock()
        self._failing_since = self._failing_since if self._failures else now
        self._failures, self._is_probing, self._last_failure = self._failures + 1, False, str(error)
        pause = error.retry_seconds or 0.0
        if (error.status in _BUSY_STATUSES or self.is_open) and now >= self._pause_until:
            self._pause_count += 1  # calls that failed together cause one pause, not a longer one each
            pause = max(pause, self._policy.backoff_seconds * 2.0 ** min(self._pause_count - 1, 30))
        self._pause_until = max(self._pause_until, now + min(pause, self._policy.max_wait_seconds))

    def record_abandoned(self) -> None:
        """Records an attempt that was not sent, because no budget was left, or whose caller was interrupted."""
        self._is_probing = False

    def _get_wait_seconds(self) -> float:
        if self.is_open and self._is_probing:
            return _POLL_SECONDS
        return self._pause_until - self._clock()

    def _get_remaining_outage_seconds(self) -> float:
        """Returns the seconds until the server counts as down.

        Raises:
            LLMError: The server counts as down.
        """
        seconds = self._clock() - self._failing_since
        if self.is_open and seconds >= self._policy.outage_seconds:
            message = f"{self._last_failure} It has been down for {seconds:.0f} seconds and {self._failures} requests."
            raise LLMError(message, is_transient=True, is_down=True, cost=ZERO_COST)
        return self._policy.outage_seconds - seconds

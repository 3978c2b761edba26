"""What all who ask one server know about it together: when it wants a rest, and whether it is there at all."""

import time
from collections.abc import Callable

from atoll.llm.llm import NoReply
from atoll.llm.policy import Policy

_TURN_SECONDS = 0.02  # how often those who wait look again
_BUSY = (429, 503, 529)


class Circuit:
    """Holds tries back: all of them while the server wants a rest, all but one while it seems to be down.

    It holds plain numbers only and no lock, so a forked child just goes on with them; of two threads that enter in the
    same moment both may try a server that seems to be down, which harms nobody.
    """

    def __init__(self, policy: Policy, clock: Callable[[], float] = time.monotonic) -> None:
        self._policy, self._clock = policy, clock
        self._failures = 0  # tries in a row, of all callers
        self._failing_since = 0.0
        self._rest_until, self._rests = 0.0, 0
        self._is_probed = False  # the one try of an open circuit is under way
        self._why = ""

    @property
    def is_open(self) -> bool:
        return self._failures >= self._policy.trip_after

    def enter(self, spread: float) -> None:
        """Returns when a try may start; whoever enters tells by `succeeded`, `failed` or `left` how it ended.

        Args:
            spread: From 0 to 1: those who were held back together shall not come back together.

        Raises:
            NoReply: The server has been down for too long.
        """
        while (seconds := self._seconds_left()) > 0:
            hope = self._seconds_of_hope()
            time.sleep(min(seconds, hope) if self.is_open else seconds + spread * self._policy.backoff_seconds)
        self._is_probed = self.is_open

    def succeeded(self) -> None:
        """Notes a reply, or a refusal: somebody is there."""
        self._failures, self._rests, self._is_probed = 0, 0, False

    def failed(self, error: NoReply) -> None:
        """Notes a try that may succeed later."""
        now = self._clock()
        self._failing_since = self._failing_since if self._failures else now
        self._failures, self._is_probed, self._why = self._failures + 1, False, str(error)
        rest = error.retry_seconds or 0.0
        if (error.status in _BUSY or self.is_open) and now >= self._rest_until:
            self._rests += 1  # those who flew together when it failed make one rest, not a longer one each
            rest = max(rest, self._policy.backoff_seconds * 2.0 ** min(self._rests - 1, 30))
        self._rest_until = max(self._rest_until, now + min(rest, self._policy.max_wait_seconds))

    def left(self) -> None:
        """Notes a try that nobody waits for any more."""
        self._is_probed = False

    def _seconds_left(self) -> float:
        if self.is_open and self._is_probed:
            return _TURN_SECONDS
        return self._rest_until - self._clock()

    def _seconds_of_hope(self) -> float:
        """Returns how long it is worth to wait for a server that is down."""
        seconds = self._clock() - self._failing_since
        if self.is_open and seconds >= self._policy.outage_seconds:
            why = f"{self._why} It has been so for {seconds:.0f} seconds and {self._failures} requests."
            raise NoReply(why, is_transient=True, is_down=True)
        return self._policy.outage_seconds - seconds

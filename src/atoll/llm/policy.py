"""How patient a model is asked: one policy for all providers, whose SDKs repeat nothing themselves."""

import math
from dataclasses import dataclass

from atoll import errors


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

"""Being told to stop."""

from threading import Event

from atoll import errors


class Cancelled(errors.AtollError):
    """Somebody said stop before the work was done."""


def check_cancelled(stop: Event | None) -> None:
    """Looks before foreign code is called.

    Raises:
        Cancelled: It was said.
    """
    if stop is not None and stop.is_set():
        raise Cancelled("It was told to stop.")

"""What a replay hands to reflectors, and the contract of those."""

from typing import Any, Protocol, runtime_checkable

import msgspec

from atoll.governed.feedback.record import Feedback
from atoll.governed.logs.entry import LogEntry


class ReplayEvent(msgspec.Struct, frozen=True, gc=False):
    """A decision with one measurement that came of it.

    Attributes:
        log: The decision.
        feedback: None: nothing has arrived yet.
        meta: Left empty by the replayer; free for others.
    """

    log: LogEntry
    feedback: Feedback | None = None
    meta: dict[str, Any] | None = None


class Reflector(Protocol):
    """Learns from events.

    Called by one thread, event after event, in the order of registration. Not thread-safe unless it says so. What it
    raises is counted and logged, and neither stops the replay nor keeps the event from the next reflector.
    """

    def on_event(self, event: ReplayEvent, /) -> object: ...


@runtime_checkable
class Stateful(Protocol):
    """A reflector whose state a checkpoint can hold."""

    def state(self) -> Any:
        """Returns all it has learned, as plain data."""

    def restore(self, state: Any) -> None:
        """Takes up what `state` returned."""

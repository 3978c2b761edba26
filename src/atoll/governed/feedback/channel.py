"""The contract of every channel of feedback."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, runtime_checkable

from atoll.governed.feedback.record import Feedback


class FeedbackChannel(Protocol):
    """Takes measurements in and gives them back: push and pull over the same data."""

    def report(
        self,
        entity: str,
        metric: str,
        value: float,
        confidence: float = 1.0,
        meta: Mapping[str, Any] | None = None,
        *,
        decision_id: str | None = None,
        observed_at: datetime | None = None,
    ) -> Feedback:
        """Takes in a measurement, stamped now; `observed_at` says when it happened, and is kept beside the stamp.

        Raises:
            EntityRequired: The entity is empty.
            MetricRequired: The metric is empty.
            SetupError: The value is no finite number, or the meta no plain data.
        """

    def query(self, entity: str, since: datetime, metric: str = "") -> Sequence[Feedback]:
        """Returns what was recorded of an entity from a moment on, oldest first; an unknown entity has none.

        Args:
            metric: Exactly this one; empty means all.

        Raises:
            EntityRequired: The entity is empty.
        """


@runtime_checkable
class ListsEntities(Protocol):
    """A channel that knows whose feedback it has."""

    def list_entities(self) -> Sequence[str]:
        """Returns all entities, sorted."""

"""Attribution: selects the feedback that belongs to a decision.

The window starts at the time of the decision (inclusive) and ends after the window length (exclusive).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from atoll import errors
from atoll.governed.evidence import day_files
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.evidence.feedback_history import History, MetricColumn
from atoll.governed.evidence.logs import LogEntry


class Attribution(Protocol):
    """Selects the feedback of a decision. Called once per decision; stateless. An empty result means pending."""

    def __call__(self, history: History, entry: LogEntry, start: int, end: int) -> Sequence[Feedback]:
        """Returns the feedback of an entry, ordered by metric.

        Args:
            history: All feedback of the entry's entity.
            start: Time of the entry in microseconds.
            end: End of the window, exclusive.
        """


def first_touch(history: History, entry: LogEntry, start: int, end: int) -> Sequence[Feedback]:
    """Selects the earliest feedback of each metric."""
    return [feedback for column in history.columns if (feedback := column.find_first(start, end)) is not None]


def last_touch(history: History, entry: LogEntry, start: int, end: int) -> Sequence[Feedback]:
    """Selects the latest feedback of each metric."""
    return [column.feedback(indices[-1]) for column, indices in _find_in_window(history, start, end)]


def every_touch(history: History, entry: LogEntry, start: int, end: int) -> Sequence[Feedback]:
    """Selects all feedback of each metric, oldest first."""
    return [column.feedback(index) for column, indices in _find_in_window(history, start, end) for index in indices]


def mean_touch(history: History, entry: LogEntry, start: int, end: int) -> Sequence[Feedback]:
    """Returns the mean of each metric, weighted by confidence, with the latest time; `meta` has the count."""
    return [_average(column, indices, lambda index: 1.0) for column, indices in _find_in_window(history, start, end)]


def by_decision(history: History, entry: LogEntry, start: int, end: int) -> Sequence[Feedback]:
    """Selects the earliest feedback of each metric with the id of the decision, at any time."""
    return [column.feedback(indices[0]) for column, indices in history.find_by_decision(entry.decision_id)]


@dataclass(frozen=True, slots=True)
class Decayed:
    """Mean of each metric in which the weight of feedback halves with every half-life."""

    half_life: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        if self.half_life <= timedelta(0):
            raise errors.SetupError(f"half_life={self.half_life}: use a positive time.")

    def __call__(self, history: History, entry: LogEntry, start: int, end: int) -> Sequence[Feedback]:
        unit = self.half_life / day_files.MICROSECOND
        return [
            _average(column, indices, lambda index, times=column.times: math.exp2(-(times[index] - start) / unit))  # type: ignore[misc]
            for column, indices in _find_in_window(history, start, end)
        ]


def _find_in_window(history: History, start: int, end: int) -> Sequence[tuple[MetricColumn, range]]:
    matches = []
    for column in history.columns:
        first = end_index = column.find_index(start)
        while end_index < column.size and column.times[end_index] < end:
            end_index += 1
        if end_index > first:
            matches.append((column, range(first, end_index)))
    return matches


def _average(column: MetricColumn, indices: range, get_weight: Callable[[int], float]) -> Feedback:
    weights = [get_weight(index) * column.confidence(index) for index in indices]
    if not (total := sum(weights)):  # all confidences are 0: use equal weights
        weights, total = [1.0] * len(indices), float(len(indices))
    value = sum(weight * column.value(index) for weight, index in zip(weights, indices, strict=True)) / total
    latest = column.feedback(indices[-1])
    confidence = sum(column.confidence(index) for index in indices) / len(indices)
    return Feedback(latest.timestamp, latest.entity, latest.metric, value, confidence, {"count": len(indices)})


ATTRIBUTIONS: Mapping[str, Attribution] = {
    "first": first_touch,
    "last": last_touch,
    "mean": mean_touch,
    "decay": Decayed(),
    "all": every_touch,
    "decision": by_decision,
}

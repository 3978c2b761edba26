"""Which feedback belongs to a decision.

All look at what came from the moment of the decision until the window ends, that moment included and the end not.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

from atoll import errors
from atoll.governed.feedback.record import Feedback
from atoll.governed.logs import moments
from atoll.governed.logs.entry import LogEntry
from atoll.governed.replay.history import Column, History


class Attribution(Protocol):
    """Finds the feedback of a decision; called once per decision, keeps nothing. None found means: not yet."""

    def __call__(self, history: History, entry: LogEntry, at: int, end: int) -> Sequence[Feedback]:
        """Returns what belongs to an entry, ordered by metric.

        Args:
            history: All feedback of the entry's entity.
            at: When the entry was made, in microseconds.
            end: The first moment that is too late.
        """


def first_touch(history: History, entry: LogEntry, at: int, end: int) -> Sequence[Feedback]:
    """Takes the earliest feedback of each metric."""
    return [found for column in history.columns if (found := column.touch(at, end)) is not None]


def last_touch(history: History, entry: LogEntry, at: int, end: int) -> Sequence[Feedback]:
    """Takes the latest feedback of each metric."""
    return [column.feedback(places[-1]) for column, places in _within(history, at, end)]


def every_touch(history: History, entry: LogEntry, at: int, end: int) -> Sequence[Feedback]:
    """Takes all feedback of each metric, an event each, oldest first."""
    return [column.feedback(place) for column, places in _within(history, at, end) for place in places]


def mean_touch(history: History, entry: LogEntry, at: int, end: int) -> Sequence[Feedback]:
    """Takes the mean of each metric, weighted by confidence and stamped as the latest; meta has the count."""
    return [_blend(column, places, lambda place: 1.0) for column, places in _within(history, at, end)]


def by_decision(history: History, entry: LogEntry, at: int, end: int) -> Sequence[Feedback]:
    """Takes what names the decision by its id, the earliest of each metric, whenever it came."""
    return [column.feedback(places[0]) for column, places in history.of_decision(entry.decision_id)]


@dataclass(frozen=True, slots=True)
class Decayed:
    """Takes a mean of each metric in which later feedback counts less: half as much after each half-life."""

    half_life: timedelta = timedelta(days=1)

    def __post_init__(self) -> None:
        if self.half_life <= timedelta(0):
            raise errors.SetupError(f"half_life={self.half_life}: give a time above 0.")

    def __call__(self, history: History, entry: LogEntry, at: int, end: int) -> Sequence[Feedback]:
        unit = self.half_life / moments.MICROSECOND
        return [
            _blend(column, places, lambda place, times=column.at: math.exp2(-(times[place] - at) / unit))  # type: ignore[misc]
            for column, places in _within(history, at, end)
        ]


def _within(history: History, at: int, end: int) -> Sequence[tuple[Column, range]]:
    found = []
    for column in history.columns:
        place = stop = column.first(at)
        while stop < column.size and column.at[stop] < end:
            stop += 1
        if stop > place:
            found.append((column, range(place, stop)))
    return found


def _blend(column: Column, places: range, weigh: Callable[[int], float]) -> Feedback:
    weights = [weigh(place) * column.confidence(place) for place in places]
    if not (total := sum(weights)):  # nobody is sure of anything: all count alike
        weights, total = [1.0] * len(places), float(len(places))
    value = sum(weight * column.value(place) for weight, place in zip(weights, places, strict=True)) / total
    last = column.feedback(places[-1])
    confidence = sum(column.confidence(place) for place in places) / len(places)
    return Feedback(last.timestamp, last.entity, last.metric, value, confidence, {"count": len(places)})


ATTRIBUTIONS: Mapping[str, Attribution] = {
    "first": first_touch,
    "last": last_touch,
    "mean": mean_touch,
    "decay": Decayed(),
    "all": every_touch,
    "decision": by_decision,
}

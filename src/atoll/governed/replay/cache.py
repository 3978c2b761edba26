"""Histories at hand: in memory up to a number of bytes, and in a file beyond that."""

from collections import OrderedDict
from datetime import datetime

from atoll.governed.feedback.channel import FeedbackChannel
from atoll.governed.replay.history import NO_HISTORY, History
from atoll.governed.replay.spill import Spill

DEFAULT_BYTES = 64 << 20  # four million measurements


class Histories:
    """Asks a channel once per entity.

    When all histories together grow too large, their numbers move to a file. What is still too large then, such as the
    notes of measurements, goes with the history that was unused longest.

    Attributes:
        kept: By entity, the one unused longest first once any has gone.
        num_queries: How often the channel was asked.
        num_evicted: How many histories went; one that is needed again costs another query.
    """

    def __init__(self, channel: FeedbackChannel, since: datetime, *, by_observed: bool, limit: int) -> None:
        self._channel, self._since, self._by_observed, self._limit = channel, since, by_observed, limit
        self.kept: OrderedDict[str, History] = OrderedDict()
        self._fresh: list[History] = []  # whose numbers are in memory
        self._spill: Spill | None = None
        self._used = self.num_queries = self.num_evicted = 0

    def get(self, entity: str) -> History:
        found = self.kept.get(entity)
        if found is not None:
            if self.num_evicted:  # until then nobody asks who was used last
                self.kept.move_to_end(entity)
            return found
        return self._load(entity) if entity else NO_HISTORY

    def _load(self, entity: str) -> History:
        self.num_queries += 1
        records = self._channel.query(entity, self._since)
        found = self.kept[entity] = History(entity, records, by_observed=self._by_observed)
        self._fresh.append(found)
        self._used += found.num_bytes
        while self._used > self._limit and self._fresh:
            self._move_out()
        while self._used > self._limit and len(self.kept) > 1:
            self._used -= self.kept.popitem(last=False)[1].num_bytes
            self.num_evicted += 1
        return found

    def _move_out(self) -> None:
        """Moves half of the numbers in memory to the file: what stays is found faster."""
        spill = self._spill = self._spill or Spill()
        half = (len(self._fresh) + 1) // 2
        for column in (column for history in self._fresh[:half] for column in history.columns):
            self._used -= column.num_bytes
            column.numbers = tuple(spill.take(each) for each in column.numbers)
            self._used += column.num_bytes
        del self._fresh[:half]

"""Histories at hand: in memory up to a number of bytes, and in a file beyond that."""

from collections import OrderedDict
from datetime import datetime

from atoll.governed.feedback.channel import FeedbackChannel
from atoll.governed.replay.history import NO_HISTORY, History
from atoll.governed.replay.spill import DiskArray

DEFAULT_BYTES = 64 << 20  # four million measurements


class FeedbackCache:
    """Asks a channel once per entity.

    When all histories together grow too large, their numbers move to a file. What is still too large then, such as the
    notes of measurements, goes with the history that was unused longest.

    Attributes:
        kept: By entity, the one unused longest first once any has gone.
        num_queries: How often the channel was asked.
        num_evicted: How many histories went; one that is needed again costs another query.
    """

    def __init__(self, channel: FeedbackChannel, since: datetime, *, by_observed: bool, max_bytes: int) -> None:
        self._channel, self._since, self._by_observed, self._max_bytes = channel, since, by_observed, max_bytes
        self.histories: OrderedDict[str, History] = OrderedDict()
        self._in_memory: list[History] = []  # whose numbers are in memory
        self._disk_array: DiskArray | None = None
        self._used_bytes = self.num_queries = self.num_evicted = 0

    def get(self, entity: str) -> History:
        history = self.histories.get(entity)
        if history is not None:
            if self.num_evicted:  # until then nobody asks who was used last
                self.histories.move_to_end(entity)
            return history
        return self._load(entity) if entity else NO_HISTORY

    def _load(self, entity: str) -> History:
        self.num_queries += 1
        records = self._channel.query(entity, self._since)
        history = self.histories[entity] = History(entity, records, by_observed=self._by_observed)
        self._in_memory.append(history)
        self._used_bytes += history.num_bytes
        while self._used_bytes > self._max_bytes and self._in_memory:
            self._spill_to_disk()
        while self._used_bytes > self._max_bytes and len(self.histories) > 1:
            self._used_bytes -= self.histories.popitem(last=False)[1].num_bytes
            self.num_evicted += 1
        return history

    def _spill_to_disk(self) -> None:
        """Moves half of the numbers in memory to the file: what stays is found faster."""
        disk_array = self._disk_array = self._disk_array or DiskArray()
        half = (len(self._in_memory) + 1) // 2
        for column in (column for history in self._in_memory[:half] for column in history.columns):
            self._used_bytes -= column.num_bytes
            column.arrays = tuple(disk_array.add(numbers) for numbers in column.arrays)
            self._used_bytes += column.num_bytes
        del self._in_memory[:half]

"""Finding records of a kind, or with a word in them, among very many: newest first, and never for long.

The store has no index for this, since whoever writes a run would pay for it at each step. Instead
what was seen once is remembered: of every stretch of the journal how many records there are of each kind, and where
those are of which there are few. Stretches never change. A look takes its time at most, and says how far it came.
"""

import time
from collections.abc import Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from atoll import store
from atoll.dashboard import memo
from atoll.store.events import Event, Events

SPAN = 32_768  # records of a stretch
FEW = 256  # of a kind in a stretch: so few are remembered one by one
WORD_SPAN = 16_384  # records that are searched for a word at a time


class Stretch(NamedTuple):
    """What was seen of `SPAN` records.

    Attributes:
        counts: How many there are, by kind.
        places: The numbers of those of which there are few, by kind.
    """

    counts: Mapping[str, int]
    places: Mapping[str, Sequence[int]]


class Page(NamedTuple):
    """What a look came upon.

    Attributes:
        events: Newest first.
        looked: The oldest number that was looked at; nothing newer than it was missed.
        is_done: There is nothing older that was not looked at.
    """

    events: Sequence[Event]
    looked: int
    is_done: bool


class Finder:
    """Looks through the journal of one run."""

    def __init__(self, kept: store.Store, run: str) -> None:
        self.events = Events(kept, run)
        self._stretches: dict[int, Stretch] = {}
        self._lock = Lock()

    def page(self, kinds: Sequence[str], words: str, before: int, limit: int, seconds: float) -> Page:
        """Looks for records older than one, for so many seconds at most.

        Args:
            kinds: Which are wanted; empty: all.
            words: What must stand in them; empty: anything.
            before: The number that all must be below.
            limit: How many at most.
        """
        deadline = time.monotonic() + seconds
        written = self.events.end()
        end = min(before, written + 1)
        if not kinds and not words:
            found = self.events.before(end, limit)
            return _page(found, found[-1].seq if found else 1, limit)
        gathered: list[Event] = []
        looked = end
        for first, last in _spans(end, WORD_SPAN if words else SPAN):
            wanted = self._present(kinds, first, written)
            if wanted or not kinds:
                gathered += self._between(wanted, words, first, last, limit - len(gathered))
            if len(gathered) >= limit:
                return _page(gathered, gathered[-1].seq, limit)
            looked = first
            if time.monotonic() >= deadline:
                break
        return Page(gathered, looked, looked <= 1)

    def warm(self) -> bool:
        """Looks at one more stretch that nobody asked for yet; returns whether there was one."""
        whole = self.events.end() // SPAN
        missing = next((number for number in reversed(range(whole)) if number not in self._stretches), None)
        if missing is None:
            return False
        self._stretch(missing)
        return True

    def _between(self, kinds: Sequence[str], words: str, first: int, last: int, limit: int) -> Sequence[Event]:
        if words:
            return self.events.searched(words, last + 1, last + 1 - first, limit, kinds).events
        return self._of_kinds(kinds, first, last, limit)

    def _of_kinds(self, kinds: Sequence[str], first: int, last: int, limit: int) -> Sequence[Event]:
        stretch = self._stretches.get((first - 1) // SPAN)
        if stretch is None or any(kind not in stretch.places for kind in kinds):
            return self.events.of_kinds(kinds, first, last, limit)
        places = sorted((seq for kind in kinds for seq in stretch.places[kind] if seq <= last), reverse=True)
        return list(reversed(self.events.at(places[:limit])))

    def _present(self, kinds: Sequence[str], first: int, written: int) -> Sequence[str]:
        """Returns those of some kinds that there may be in the stretch of a record."""
        number = (first - 1) // SPAN
        if not kinds or (number + 1) * SPAN > written:
            return kinds  # it still grows
        counts = self._stretch(number).counts
        return [kind for kind in kinds if kind in counts]

    def _stretch(self, number: int) -> Stretch:
        with self._lock:
            found = self._stretches.get(number)
        if found is not None:
            return found
        first, last = number * SPAN + 1, (number + 1) * SPAN
        counts = self.events.counts(first, last)
        few = [kind for kind, count in counts.items() if count <= FEW]
        made = Stretch(counts, self.events.places(few, first, last) if few else {})
        with self._lock:
            return self._stretches.setdefault(number, made)


class Finders(memo.PerRun[Finder]):
    """The finders of a store's runs, each made once."""

    def __init__(self, kept: store.Store) -> None:
        super().__init__(kept, Finder)


def _page(found: Sequence[Event], looked: int, limit: int) -> Page:
    return Page(found, looked, len(found) < limit or looked <= 1)


def _spans(end: int, size: int) -> Iterator[tuple[int, int]]:
    """Yields the first and last numbers of stretches below `end`, newest first, each within a multiple of `size`."""
    last = end - 1
    while last >= 1:
        first = (last - 1) // size * size + 1
        yield first, last
        last = first - 1

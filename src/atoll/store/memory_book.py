"""Entries inside one process."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Condition, RLock

from atoll.store import book, entry


class MemoryBook:
    """Entries in a list, with an index by key."""

    def __init__(self) -> None:
        self._entries: list[entry.Entry] = []
        self._versions: dict[str, list[entry.Entry]] = {}
        self._beside: dict[str, list[entry.Entry]] = {}
        self._tokens: dict[str, entry.Entry] = {}
        self._changed = Condition(RLock())

    @contextmanager
    def writing(self) -> Iterator["MemoryBook"]:
        with self._changed:
            before = len(self._entries)
            try:
                yield self
            except BaseException:
                while len(self._entries) > before:
                    self._drop(self._entries.pop())
                raise
            self._changed.notify_all()

    def put(self, entry: entry.Entry) -> None:
        self._entries.append(entry)
        side = self._beside if entry.n is None else self._versions
        side.setdefault(entry.key, []).append(entry)
        if entry.token is not None:
            self._tokens[entry.token] = entry

    def _drop(self, entry: entry.Entry) -> None:
        side = self._beside if entry.n is None else self._versions
        side[entry.key].pop()
        if not side[entry.key]:
            del side[entry.key]
        if entry.token is not None:
            del self._tokens[entry.token]

    def tail(self) -> book.Tail:
        with self._changed:
            return (
                book.Tail(len(self._entries), self._entries[-1].hash, self._entries[-1].at)
                if self._entries
                else (book.Tail())
            )

    def state(self, key: str) -> book.State:
        turns = [each for each in self._beside.get(key, ()) if each.kind in (entry.LOCK, entry.UNLOCK)]
        lock = turns[-1] if turns and turns[-1].kind == entry.LOCK else None
        return book.State(len(self._versions.get(key, ())), lock)

    def alias(self, key: str, name: str) -> entry.Entry | None:
        return book.last_move(self._beside.get(key, ()), name)

    def by_token(self, token: str) -> entry.Entry | None:
        return self._tokens.get(token)

    def head(self, key: str, upto: int | None = None) -> entry.Entry | None:
        with self._changed:
            found = self._versions.get(key, ())
            place = len(found) if upto is None else bisect_right(found, upto, key=lambda each: each.seq)
            return found[place - 1] if place else None

    def value(self, key: str) -> tuple[str, int] | None:
        found = self.head(key)
        return None if found is None else (found.value or "null", found.n or 0)

    def version(self, key: str, n: int) -> entry.Entry | None:
        with self._changed:
            found = self._versions.get(key, ())
            return found[n - 1] if 1 <= n <= len(found) else None

    def history(self, key: str, limit: int) -> Sequence[entry.Entry]:
        with self._changed:
            return list(self._versions.get(key, ())[-limit if limit > 0 else 0 :])

    def beside(self, key: str, upto: int | None = None) -> Sequence[entry.Entry]:
        with self._changed:
            return [each for each in self._beside.get(key, ()) if upto is None or each.seq <= upto]

    def keys(self, prefix: str) -> Sequence[str]:
        with self._changed:
            return sorted(key for key in self._versions if key.startswith(prefix))

    def heads(self, prefix: str, upto: int) -> Sequence[entry.Entry]:
        with self._changed:
            found = (self.head(key, upto) for key in self.keys(prefix))
            return [each for each in found if each is not None]

    def entries(self, prefix: str, after: int, upto: int | None, limit: int) -> Sequence[entry.Entry]:
        with self._changed:
            found: list[entry.Entry] = []
            for place in range(max(after, 0), len(self._entries) if upto is None else min(upto, len(self._entries))):
                if self._entries[place].key.startswith(prefix):
                    found.append(self._entries[place])
                    if len(found) == limit:
                        break
            return found

    def newest(self, prefix: str, after: int, limit: int) -> Sequence[entry.Entry]:
        with self._changed:
            found: list[entry.Entry] = []
            for place in range(len(self._entries) - 1, max(after, 0) - 1, -1):
                if len(found) == limit:
                    break
                if self._entries[place].key.startswith(prefix):
                    found.append(self._entries[place])
            return found[::-1]

    def seq_at(self, at: str) -> int:
        with self._changed:
            return bisect_right(self._entries, at, key=lambda each: each.at)

    def wait(self, after: int, timeout: float) -> bool:
        with self._changed:
            return self._changed.wait_for(lambda: len(self._entries) > after, timeout)

    def close(self) -> None:
        """There is nothing to free."""

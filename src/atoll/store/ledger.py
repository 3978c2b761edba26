"""What a change means: versions, reasons, locks, aliases and notes in one sequence, whatever keeps it."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from atoll import errors
from atoll.store import entry as entries
from atoll.store import refusals
from atoll.store.book import Book, Pen
from atoll.store.entry import Entry
from atoll.store.perseverance import persistently

CHUNK = 256
WAIT_SECONDS = 3600.0  # one turn of a watch without an end
_MOST = 2**63 - 1  # the greatest number that a database can hold
_MOST_DIGITS = 18
_BEFORE_ALL = -_MOST - 2

_NAME = re.compile(r"[A-Za-z_][\w.-]{0,63}", re.ASCII)

type Moment = int | datetime


def now() -> datetime:
    return datetime.now(UTC)


def stamp(moment: datetime) -> str:
    """Returns a moment as text that sorts; one without a zone is taken for UTC."""
    there = moment if moment.tzinfo is UTC else moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    return there.isoformat(timespec="microseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """A change that is asked for.

    Attributes:
        kind: As in `Entry`.
        value: JSON text of the new value, or of a note.
        name: Of an alias.
        target: The version to roll back to, or that an alias shall point at; None takes the alias away.
        expected: The version that the change is based on; 0: there is none yet; None: whatever it is.
        at: When it was made, for what comes from elsewhere; never before the entry that stands before it.
    """

    kind: str
    key: str
    reason: str
    author: str
    value: str | None = None
    name: str = ""
    target: int | None = None
    expected: int | None = None
    token: str | None = None
    at: str | None = None

    def check(self) -> None:
        """Refuses what no ledger would take, before anything is locked or written.

        Raises:
            ReasonRequired: It has no reason.
            InvalidKey: The key is none.
            SetupError: The author or another text is none.
        """
        entries.check_reason(self.reason)
        entries.check_key(self.key)
        entries.check_author(self.author)
        entries.check_texts(self.reason, self.author, self.token or "")
        if self.kind == entries.ALIAS and not _NAME.fullmatch(self.name):
            raise errors.SetupError(f"{self.name!r} is no alias: give a word that begins with a letter.")


class Ledger:
    """Carries out changes, one after the other, and finds what they left.

    Args:
        book: Where the entries are kept.
        clock: Says when; a clock that goes back is held at the last entry's time.
    """

    def __init__(self, book: Book, clock: Callable[[], datetime] = now) -> None:
        self.book, self._clock = book, clock

    def change(self, *operations: Operation) -> Sequence[Entry | None]:
        """Carries out all operations, or none; returns the entries, None for what had nothing to change.

        Raises:
            ReasonRequired: One has no reason.
            ParameterNotFound: It is about a key that is not there.
            ParameterLocked: The key is locked.
            VersionNotFound: It is about a version that is not there.
            VersionConflict: The head is another one than expected.
        """
        for each in operations:
            each.check()
        return persistently(lambda: self._change(operations))

    def _change(self, operations: Sequence[Operation]) -> Sequence[Entry | None]:
        with self.book.writing() as pen:
            at = stamp(self._clock())
            return [_carry_out(pen, each, each.at or at) for each in operations]

    def note(self, operation: Operation) -> Entry:
        """Writes down what changes no key: an approval, a rejection."""
        entries.check_kind(operation.kind)
        made = self.change(operation)[0]
        assert made is not None, "a note is always written"
        return made

    def get(self, key: str, n: int | None = None, upto: int | None = None) -> Entry:
        """Returns the head of a key, its n-th version, or the head once `upto` entries stood.

        Raises:
            ParameterNotFound: There is no such key.
            VersionNotFound: It has no such version, or had none then.
        """
        if n is not None and not 0 < n <= _MOST:
            raise refusals.VersionNotFound(key, n)
        found = self.book.head(key, upto) if n is None else self.book.version(key, n)
        if found is not None and (upto is None or found.seq <= upto):
            return found
        if n is None and upto is None:
            raise refusals.ParameterNotFound(key)
        raise refusals.VersionNotFound(key, n if n is not None else f"(as of {upto})")

    def resolve(self, key: str, upto: int | None = None) -> Entry:
        """Returns what a name stands for: a key, else KEY@N, else KEY@ALIAS.

        Raises:
            ParameterNotFound: There is no such key.
            VersionNotFound: It has no such version or alias.
        """
        found = self.book.head(key, upto)
        if found is not None:
            return found
        base, _, name = key.rpartition("@")
        if not base:
            return self.get(key, None, upto)
        digits = name.lstrip("0") or "0"
        if name.isascii() and name.isdigit() and len(digits) <= _MOST_DIGITS:
            return self.get(base, int(digits), upto)
        pointers = self.aliases(base, upto)
        if name in pointers:
            return self.get(base, pointers[name], upto)
        raise refusals.VersionNotFound(base, name) if self.book.head(base) else refusals.ParameterNotFound(key)

    def aliases(self, key: str, upto: int | None = None) -> dict[str, int]:
        """Returns where the aliases of a key point."""
        found: dict[str, int] = {}
        for each in self.book.beside(key, upto):
            if each.kind == entries.ALIAS:
                name = json.loads(each.value or "null")
                found.pop(name, None)
                if each.target is not None:
                    found[name] = each.target
        return found

    def lock_of(self, key: str) -> Entry | None:
        """Returns the lock that holds a key, or None."""
        turns = [each for each in self.book.beside(key) if each.kind in (entries.LOCK, entries.UNLOCK)]
        return turns[-1] if turns and turns[-1].kind == entries.LOCK else None

    def upto(self, moment: Moment | None) -> int | None:
        """Returns how many entries stood at a moment: a number is that number already."""
        return self.book.seq_at(stamp(moment)) if isinstance(moment, datetime) else moment

    def whole(self) -> Iterator[Entry]:
        """Yields all entries and, before them, what only somebody who edits the database can have put there."""
        return self.entries(after=_BEFORE_ALL)

    def entries(self, prefix: str = "", after: int = 0, upto: int | None = None) -> Iterator[Entry]:
        """Yields entries in their order, read in small portions."""
        while portion := self.book.entries(prefix, after, upto, CHUNK):
            yield from portion
            after = portion[-1].seq

    def follow(self, prefix: str, after: int, timeout: float | None) -> Iterator[Entry]:
        """Yields entries behind `after` as they come, of any process; ends when so many seconds bring none."""
        while True:
            end = self.book.tail().seq
            yield from self.entries(prefix, after, end)
            after = max(after, end)
            if not self.wait(after, timeout):
                return

    def wait(self, after: int, timeout: float | None) -> bool:
        """Waits for an entry behind `after`; without a timeout, for as long as it takes."""
        if timeout is not None:
            return self.book.wait(after, timeout)
        while not self.book.wait(after, WAIT_SECONDS):
            pass
        return True


def _carry_out(pen: Pen, asked: Operation, at: str) -> Entry | None:
    if asked.token is not None and (before := pen.by_token(asked.token)) is not None:
        return before
    n, target, value = None, asked.target, asked.value
    match asked.kind:
        case entries.SET:
            n = _next(pen, asked)
        case entries.ROLLBACK:
            n, value = _restored(pen, asked)
        case entries.LOCK | entries.UNLOCK:
            held = pen.state(asked.key)
            if held.n == 0:
                raise refusals.ParameterNotFound(asked.key)
            if asked.kind == entries.UNLOCK and held.lock is None:
                return None
            target = held.n
        case entries.ALIAS:
            if not _moves(pen, asked):
                return None
            value = json.dumps(asked.name)
    seq, last, before_at = pen.tail()
    at = max(at, before_at)
    plain = Entry(seq + 1, asked.key, asked.kind, n, target, value, asked.reason, asked.author, at, asked.token)
    made = plain.chained(last)
    pen.put(made)
    return made


def _next(pen: Pen, asked: Operation) -> int:
    held = pen.state(asked.key)
    if held.lock is not None:
        raise refusals.ParameterLocked(asked.key, held.lock.author, held.lock.reason)
    _check_expected(asked, held.n)
    return held.n + 1


def _restored(pen: Pen, asked: Operation) -> tuple[int, str | None]:
    held = pen.state(asked.key)
    if held.n == 0:
        raise refusals.ParameterNotFound(asked.key)
    _check_expected(asked, held.n)
    old = pen.version(asked.key, asked.target or 0)
    if old is None:
        raise refusals.VersionNotFound(asked.key, asked.target)
    return held.n + 1, old.value


def _moves(pen: Pen, asked: Operation) -> bool:
    """Checks the move of an alias; False if there is nothing to move. Of a locked key it goes back, never forward."""
    held, last = pen.state(asked.key), pen.alias(asked.key, asked.name)
    there = last.target if last is not None else None
    if held.n == 0:
        raise refusals.ParameterNotFound(asked.key)
    is_back = there is not None and asked.target is not None and asked.target < there
    if held.lock is not None and not is_back:
        raise refusals.ParameterLocked(asked.key, held.lock.author, held.lock.reason)
    if asked.expected is not None and asked.expected != (there or 0):
        raise refusals.VersionConflict(f"{asked.key}@{asked.name}", asked.expected, there or 0)
    if asked.target is not None and pen.version(asked.key, asked.target) is None:
        raise refusals.VersionNotFound(asked.key, asked.target)
    return not (asked.target is None and there is None)


def _check_expected(asked: Operation, actual: int) -> None:
    if asked.expected is not None and asked.expected != actual:
        raise refusals.VersionConflict(asked.key, asked.expected, actual)

"""Parameters over a ledger: JSON values, typed reads, validation, watches with gaps."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from atoll.governed.parameters import actors
from atoll.governed.parameters.store import BUFFER, Change, Gap, Snapshot, Value
from atoll.store import audit, book, entry, ledger, packing, refusals

_decode = json.JSONDecoder().raw_decode  # a third of the time of `loads`, of a text that begins with its value

type Check = Callable[[str, Any], None]


class Parameters:
    """A `ParameterStore` on any book.

    Args:
        kept: Where the entries stand.
        check: Told each key and new value; raises `InvalidValue` for what the key does not allow.
        clock: Says when a change was made.
    """

    def __init__(
        self, kept: book.Book, *, check: Check | None = None, clock: Callable[[], datetime] = ledger.now
    ) -> None:
        self.ledger, self._check = ledger.Ledger(kept, clock), check

    def get(self, key: str, *, as_of: int | datetime | None = None) -> Value:
        if as_of is None and (newest := self.ledger.book.value(key)) is not None:
            return Value(_decode(newest[0])[0], newest[1])
        found = self.ledger.resolve(key, None if as_of is None else self.ledger.upto(as_of))
        return Value(json.loads(found.value or "null"), found.n or 0)

    def read[T](self, key: str, kind: type[T], default: T | None = None) -> T:
        """Returns a value of one type: `store.read("ema/alpha", float, 0.3)`.

        Args:
            kind: `bool`, `int`, `float` (which takes whole numbers too), `str`, `list` or `dict`.
            default: What is returned where there is no such key; without one that is an error.

        Raises:
            ParameterNotFound: There is no such key, and no default.
            InvalidValue: The value is of another type.
        """
        try:
            found = self.get(key).value
        except (refusals.ParameterNotFound, refusals.VersionNotFound):
            if default is None:
                raise
            return default
        if kind is float and type(found) is int:
            found = float(found)
        if type(found) is not kind:
            raise refusals.InvalidValue(f"{key} holds {found!r:.80}, which is no {kind.__name__}.")
        return found

    def __getitem__(self, key: str) -> Any:
        return self.get(key).value

    def __contains__(self, key: str) -> bool:
        return self.ledger.book.head(key) is not None

    def set(
        self,
        key: str,
        value: Any,
        reason: str,
        *,
        author: str | None = None,
        expected_version: int | None = None,
        token: str | None = None,
    ) -> int:
        asked = self._setting(key, value, reason, author or actors.actor(), expected_version, token)
        return self._made(asked).n or 0

    def list(self, prefix: str = "") -> Sequence[str]:
        return self.ledger.book.keys(prefix)

    def history(self, key: str, limit: int = 0) -> Sequence[Change]:
        found = [change(each) for each in self.ledger.book.history(key, limit)]
        if not found:
            raise refusals.ParameterNotFound(key)
        return found

    def rollback(self, key: str, to_version: int, reason: str, *, author: str | None = None) -> int:
        asked = _operation(entry.ROLLBACK, key, reason, author or actors.actor(), target=to_version)
        return self._made(asked).n or 0

    def lock(self, key: str, reason: str, *, author: str | None = None) -> None:
        self.ledger.change(_operation(entry.LOCK, key, reason, author or actors.actor()))

    def unlock(self, key: str, reason: str, *, author: str | None = None) -> None:
        self.ledger.change(_operation(entry.UNLOCK, key, reason, author or actors.actor()))

    def lock_of(self, key: str) -> Change | None:
        found = self.ledger.lock_of(key)
        return None if found is None else change(found)

    def alias(
        self,
        key: str,
        name: str,
        version: int | None,
        reason: str,
        *,
        author: str | None = None,
        expected_version: int | None = None,
    ) -> None:
        by = author or actors.actor()
        self.ledger.change(
            _operation(entry.ALIAS, key, reason, by, name=name, target=version, expected=expected_version)
        )

    def aliases(self, key: str) -> Mapping[str, int]:
        return self.ledger.aliases(key)

    def note(self, key: str, kind: str, value: Any, reason: str, *, author: str | None = None) -> Change:
        asked = _operation(kind, key, reason, author or actors.actor(), value=_text(key, value))
        return change(self.ledger.note(asked))

    @contextmanager
    def transaction(self, reason: str = "", *, author: str | None = None) -> Iterator["Draft"]:
        draft = Draft(self._setting, reason, author or actors.actor())
        yield draft
        draft.made = self.ledger.change(*draft.operations) if draft.operations else ()

    def watch(
        self, prefix: str = "", *, after: int | None = None, timeout: float | None = None, buffer: int | None = BUFFER
    ) -> Iterator[Change | Gap]:
        began = self.ledger.book.tail().seq
        return self._follow(prefix, began if after is None else after, began, timeout, buffer)

    def _follow(
        self, prefix: str, after: int, began: int, timeout: float | None, buffer: int | None
    ) -> Iterator[Change | Gap]:
        if after < began:
            yield from self.changes(prefix, after=after, upto=began)
            after = began
        while self.ledger.wait(after, timeout):
            end = self.ledger.book.tail().seq
            if buffer is None:
                yield from self.changes(prefix, after=after, upto=end)
                after = end
                continue
            fresh = self.ledger.book.newest(prefix, after, buffer + 1)
            if len(fresh) > buffer:
                yield Gap(after + 1, fresh[0].seq)
                fresh = fresh[1:]
            yield from map(change, fresh)
            after = max(end, fresh[-1].seq if fresh else 0)

    def changes(self, prefix: str = "", *, after: int = 0, upto: int | None = None) -> Iterator[Change]:
        return map(change, self.ledger.entries(prefix, after, upto))

    def snapshot(self, prefix: str = "", *, as_of: int | datetime | None = None) -> Snapshot:
        upto = self.ledger.book.tail().seq if as_of is None else self.ledger.upto(as_of) or 0
        heads = self.ledger.book.heads(prefix, upto)
        return Snapshot(upto, {each.key: Value(json.loads(each.value or "null"), each.n or 0) for each in heads})

    def verify(self, anchors: Sequence[audit.Anchor] = ()) -> audit.Report:
        return audit.verify(self.ledger.whole(), anchors)

    def anchor(self, key: bytes | None = None) -> audit.Anchor:
        return audit.Anchor.of(self.ledger.book.tail(), key)

    def close(self) -> None:
        """Frees what the book holds."""
        self.ledger.book.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _setting(
        self, key: str, value: Any, reason: str, author: str, expected: int | None, token: str | None = None
    ) -> ledger.Operation:
        entry.check_reason(reason)
        entry.check_key(key)
        text = _text(key, value)
        if self._check is not None:
            self._check(key, value)
        return ledger.Operation(
            kind=entry.SET, key=key, value=text, reason=reason, author=author, expected=expected, token=token
        )

    def _made(self, asked: ledger.Operation) -> entry.Entry:
        made = self.ledger.change(asked)[0]
        assert made is not None, "a version is always made"
        return made


class Draft:
    """A `Transaction` under way.

    Attributes:
        operations: What was asked for so far.
        made: The entries, once the block has ended.
    """

    def __init__(self, setting: Callable[..., ledger.Operation], reason: str, author: str) -> None:
        self._setting, self._reason, self._author = setting, reason, author
        self.operations: list[ledger.Operation] = []
        self.made: Sequence[entry.Entry | None] = ()

    @property
    def changes(self) -> Sequence[Change]:
        return [change(each) for each in self.made if each is not None]

    def set(
        self, key: str, value: Any, reason: str = "", *, expected_version: int | None = None, token: str | None = None
    ) -> None:
        why = reason or self._reason
        self.operations.append(self._setting(key, value, why, self._author, expected_version, token))

    def rollback(self, key: str, to_version: int, reason: str = "") -> None:
        self._ask(entry.ROLLBACK, key, reason, target=to_version)

    def lock(self, key: str, reason: str = "") -> None:
        self._ask(entry.LOCK, key, reason)

    def unlock(self, key: str, reason: str = "") -> None:
        self._ask(entry.UNLOCK, key, reason)

    def alias(
        self, key: str, name: str, version: int | None, reason: str = "", *, expected_version: int | None = None
    ) -> None:
        self._ask(entry.ALIAS, key, reason, name=name, target=version, expected=expected_version)

    def note(self, key: str, kind: str, value: Any, reason: str = "") -> None:
        entry.check_kind(kind)
        self._ask(kind, key, reason, value=_text(key, value))

    def _ask(self, kind: str, key: str, reason: str, **rest: Any) -> None:
        self.operations.append(_operation(kind, key, reason or self._reason, self._author, **rest))


def _operation(kind: str, key: str, reason: str, author: str, **rest: Any) -> ledger.Operation:
    return ledger.Operation(kind=kind, key=key, reason=reason, author=author, **rest)


def change(found: entry.Entry) -> Change:
    """Returns an entry as those who use parameters see it."""
    value = None if found.value is None else json.loads(found.value)
    version = found.n if found.n is not None else found.target or 0
    when = datetime.fromisoformat(found.at).astimezone(UTC)
    target = found.target if found.kind == entry.ROLLBACK else None
    return Change(
        found.key, found.kind, version, value, found.reason, found.author, when, found.seq, target, found.hash
    )


def _text(key: str, value: Any) -> str:
    """Returns a value as JSON.

    Raises:
        InvalidValue: It is none.
    """
    try:
        return packing.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise refusals.InvalidValue(f"{key} was not set: {error}.") from error

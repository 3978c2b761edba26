"""Parameter stores over a change log: JSON values, typed reads, validation, watching, transactions."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from atoll import store
from atoll.governed.parameters.store import BUFFER, Change, Gap, Snapshot, Value
from atoll.store import access
from atoll.store.records import json_codec
from atoll.store.versions import audit, change, errors, ledger
from atoll.store.versions.errors import ChainBroken

ANONYMOUS = "anonymous"

_current_author: ContextVar[str] = ContextVar("actor", default=ANONYMOUS)


def get_current_author() -> str:
    return _current_author.get()


@contextmanager
def author_context(author: str) -> Iterator[None]:
    """Sets the author of changes inside the block, for this thread or task."""
    token = _current_author.set(author)
    try:
        yield
    finally:
        _current_author.reset(token)


_decode = json.JSONDecoder().raw_decode  # takes a third of the time of `loads`

type Check = Callable[[str, Any], None]


class Parameters:
    """`ParameterStore` over any change log.

    Args:
        change_log: Holds the changes.
        check: Called with each key and new value; raises `InvalidValue` to reject it.
        clock: Time of a change.
    """

    def __init__(
        self, log: change.ChangeLog, *, check: Check | None = None, clock: Callable[[], datetime] = ledger.now
    ) -> None:
        self.ledger, self._check = ledger.VersionLedger(log, clock), check

    def get(self, key: str, *, as_of: int | datetime | None = None) -> Value:
        if as_of is None and (newest := self.ledger.change_log.get_value(key)) is not None:
            return Value(_decode(newest[0])[0], newest[1])
        head = self.ledger.resolve(key, None if as_of is None else self.ledger.resolve_as_of(as_of))
        return Value(json.loads(head.value or "null"), head.n or 0)

    def read[T](self, key: str, value_type: type[T], default: T | None = None) -> T:
        """Returns a value of one type: `store.read("ema/alpha", float, 0.3)`.

        Args:
            value_type: `bool`, `int`, `float` (accepts integers too), `str`, `list` or `dict`.
            default: Returned if the key does not exist; without it a missing key is an error.

        Raises:
            ParameterNotFound: The key does not exist and default is None.
            InvalidValue: The value has another type.
        """
        try:
            value = self.get(key).value
        except (errors.ParameterNotFound, errors.VersionNotFound):
            if default is None:
                raise
            return default
        if value_type is float and type(value) is int:
            value = float(value)
        if type(value) is not value_type:
            raise errors.InvalidValue(f"{key} is {value!r:.80}, not a {value_type.__name__}.")
        return value

    def __getitem__(self, key: str) -> Any:
        return self.get(key).value

    def __contains__(self, key: str) -> bool:
        return self.ledger.change_log.get_head(key) is not None

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
        request = self._make_set_request(key, value, reason, author or get_current_author(), expected_version, token)
        return self._commit(request).n or 0

    def list(self, prefix: str = "") -> Sequence[str]:
        return self.ledger.change_log.list_keys(prefix)

    def history(self, key: str, limit: int = 0) -> Sequence[Change]:
        changes = [to_change(entry) for entry in self.ledger.change_log.list_history(key, limit)]
        if not changes:
            raise errors.ParameterNotFound(key)
        return changes

    def rollback(self, key: str, to_version: int, reason: str, *, author: str | None = None) -> int:
        request = _make_request(change.ROLLBACK, key, reason, author or get_current_author(), target=to_version)
        return self._commit(request).n or 0

    def lock(self, key: str, reason: str, *, author: str | None = None) -> None:
        self.ledger.apply(_make_request(change.LOCK, key, reason, author or get_current_author()))

    def unlock(self, key: str, reason: str, *, author: str | None = None) -> None:
        self.ledger.apply(_make_request(change.UNLOCK, key, reason, author or get_current_author()))

    def get_lock(self, key: str) -> Change | None:
        lock_entry = self.ledger.get_lock(key)
        return None if lock_entry is None else to_change(lock_entry)

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
        resolved_author = author or get_current_author()
        self.ledger.apply(
            _make_request(
                change.ALIAS, key, reason, resolved_author, name=name, target=version, expected=expected_version
            )
        )

    def aliases(self, key: str) -> Mapping[str, int]:
        return self.ledger.get_aliases(key)

    def note(self, key: str, kind: str, value: Any, reason: str, *, author: str | None = None) -> Change:
        request = _make_request(kind, key, reason, author or get_current_author(), value=_encode_value(key, value))
        return to_change(self.ledger.add_note(request))

    @contextmanager
    def transaction(self, reason: str = "", *, author: str | None = None) -> Iterator["OpenTransaction"]:
        open_transaction = OpenTransaction(self._make_set_request, reason, author or get_current_author())
        yield open_transaction
        open_transaction.entries = self.ledger.apply(*open_transaction.requests) if open_transaction.requests else ()

    def watch(
        self, prefix: str = "", *, after: int | None = None, timeout: float | None = None, buffer: int | None = BUFFER
    ) -> Iterator[Change | Gap]:
        start_seq = self.ledger.change_log.get_end().seq
        return self._follow(prefix, start_seq if after is None else after, start_seq, timeout, buffer)

    def _follow(
        self, prefix: str, after: int, start_seq: int, timeout: float | None, buffer: int | None
    ) -> Iterator[Change | Gap]:
        if after < start_seq:
            yield from self.changes(prefix, after=after, end=start_seq)
            after = start_seq
        while self.ledger.wait_for_change(after, timeout):
            end_seq = self.ledger.change_log.get_end().seq
            if buffer is None:
                yield from self.changes(prefix, after=after, end=end_seq)
                after = end_seq
                continue
            new_entries = self.ledger.change_log.list_newest(prefix, after, buffer + 1)
            if len(new_entries) > buffer:
                yield Gap(after + 1, new_entries[0].seq)
                new_entries = new_entries[1:]
            yield from map(to_change, new_entries)
            after = max(end_seq, new_entries[-1].seq if new_entries else 0)

    def changes(self, prefix: str = "", *, after: int = 0, end: int | None = None) -> Iterator[Change]:
        return map(to_change, self.ledger.iter_entries(prefix, after, end))

    def snapshot(self, prefix: str = "", *, as_of: int | datetime | None = None) -> Snapshot:
        end_seq = self.ledger.change_log.get_end().seq if as_of is None else self.ledger.resolve_as_of(as_of) or 0
        heads = self.ledger.change_log.list_heads(prefix, end_seq)
        return Snapshot(end_seq, {head.key: Value(json.loads(head.value or "null"), head.n or 0) for head in heads})

    def verify(self, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
        return audit.verify(self.ledger.iter_all(), anchors)

    def anchor(self, key: bytes | None = None) -> audit.Anchor:
        return audit.Anchor.from_log_end(self.ledger.change_log.get_end(), key)

    def get_access(self) -> access.AccessControl:
        """Returns the principals and the policy of the store."""
        return access.load_control(self.ledger.change_log)

    def get_author(self, author: str | None = None) -> str:
        """Returns the author of changes: the principal of the token or, in single-user mode, the given name.

        Raises:
            AccessDenied: The token is missing or wrong, or the name is that of another principal.
        """
        control = self.get_access()
        if control.is_single_user:
            return author or get_current_author()
        principal = control.authenticate(access.get_token())
        if author and control.find(author) not in (None, principal):
            raise errors.AccessDenied(f"Your token is that of {principal.name}, so you cannot act as {author}.")
        return principal.name

    def close(self) -> None:
        """Closes the change log."""
        self.ledger.change_log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _make_set_request(
        self, key: str, value: Any, reason: str, author: str, expected: int | None, token: str | None = None
    ) -> store.ChangeRequest:
        change.check_reason(reason)
        change.check_key(key)
        text = _encode_value(key, value)
        if self._check is not None:
            self._check(key, value)
        return store.ChangeRequest(
            kind=change.SET, key=key, value=text, reason=reason, author=author, expected=expected, token=token
        )

    def _commit(self, request: store.ChangeRequest) -> change.ChangeEntry:
        entry = self.ledger.apply(request)[0]
        assert entry is not None, "a version is always made"
        return entry


class OpenTransaction:
    """Transaction that collects changes until its block ends.

    Attributes:
        requests: Requested changes.
        entries: Changes made, after the end of the block.
    """

    def __init__(self, make_set_request: Callable[..., store.ChangeRequest], reason: str, author: str) -> None:
        self._make_set_request, self._reason, self._author = make_set_request, reason, author
        self.requests: list[store.ChangeRequest] = []
        self.entries: Sequence[change.ChangeEntry | None] = ()

    @property
    def changes(self) -> Sequence[Change]:
        return [to_change(entry) for entry in self.entries if entry is not None]

    def set(
        self, key: str, value: Any, reason: str = "", *, expected_version: int | None = None, token: str | None = None
    ) -> None:
        full_reason = reason or self._reason
        self.requests.append(self._make_set_request(key, value, full_reason, self._author, expected_version, token))

    def rollback(self, key: str, to_version: int, reason: str = "") -> None:
        self._add_request(change.ROLLBACK, key, reason, target=to_version)

    def lock(self, key: str, reason: str = "") -> None:
        self._add_request(change.LOCK, key, reason)

    def unlock(self, key: str, reason: str = "") -> None:
        self._add_request(change.UNLOCK, key, reason)

    def alias(
        self, key: str, name: str, version: int | None, reason: str = "", *, expected_version: int | None = None
    ) -> None:
        self._add_request(change.ALIAS, key, reason, name=name, target=version, expected=expected_version)

    def note(self, key: str, kind: str, value: Any, reason: str = "") -> None:
        change.check_kind(kind)
        self._add_request(kind, key, reason, value=_encode_value(key, value))

    def _add_request(self, kind: str, key: str, reason: str, **options: Any) -> None:
        self.requests.append(_make_request(kind, key, reason or self._reason, self._author, **options))


def _make_request(kind: str, key: str, reason: str, author: str, **options: Any) -> store.ChangeRequest:
    return store.ChangeRequest(kind=kind, key=key, reason=reason, author=author, **options)


def to_change(entry: change.ChangeEntry) -> Change:
    """Returns a log entry as a `Change`."""
    value = None if entry.value is None else json.loads(entry.value)
    version = entry.n if entry.n is not None else entry.target or 0
    timestamp = datetime.fromisoformat(entry.at).astimezone(UTC)
    target = entry.target if entry.kind == change.ROLLBACK else None
    return Change(
        entry.key, entry.kind, version, value, entry.reason, entry.author, timestamp, entry.seq, target, entry.hash
    )


def _encode_value(key: str, value: Any) -> str:
    """Returns a value as JSON text.

    Raises:
        InvalidValue: The value is not JSON.
    """
    try:
        return json_codec.encode(value)
    except (TypeError, ValueError, RecursionError) as error:
        raise errors.InvalidValue(f"{key} was not set: {error}.") from error


class MemoryParameters(Parameters):
    """Parameters in memory, for tests and for runs that leave nothing behind."""

    def __init__(self, *, check: Check | None = None, clock: Callable[[], datetime] = ledger.now) -> None:
        super().__init__(store.MemoryChangeLog(), check=check, clock=clock)


class StoredParameters(Parameters):
    """Parameters in a store that several processes share. `Store.versions` has the same keys.

    Args:
        store_or_url: Open store, or its path or URL; `close` closes only a store opened here.
        check: Same as in `Parameters`.
        clock: Time of a change.
    """

    def __init__(
        self,
        store_or_url: store.Store | str | os.PathLike[str],
        *,
        check: Check | None = None,
        clock: Callable[[], datetime] = ledger.now,
    ) -> None:
        self._owns_store = not isinstance(store_or_url, store.Store)
        self.store = store_or_url if isinstance(store_or_url, store.Store) else store.open(store_or_url)
        super().__init__(self.store.change_log(), check=check, clock=clock)

    def verify(self, anchors: Sequence[audit.Anchor] = ()) -> audit.AuditReport:
        if unexpected := self.store.find_unexpected_objects():
            raise ChainBroken(
                f"{self.store.database.name} has objects that Atoll did not create: {', '.join(unexpected)}. They "
                "could falsify results, so nothing was verified. Remove them, or restore a backup.",
                0,
            )
        return super().verify(anchors)

    def close(self) -> None:
        if self._owns_store:
            self.store.close()

"""Ledger: checks changes (versions, locks, aliases, notes), appends them to a change log, and reads versions."""

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from atoll import errors, versions
from atoll.store.access.gate import Gate
from atoll.store.database.database import Database, retry_transaction
from atoll.store.versions import change as entries
from atoll.store.versions.change import ChangeEntry, ChangeLog, ChangeRequest, ChangeWriter
from atoll.store.versions.errors import ParameterLocked, ParameterNotFound, VersionConflict, VersionNotFound
from atoll.store.versions.sql_change_log import SQLChangeLog

CHUNK = 256
WAIT_SECONDS = 3600.0  # of one wait without a timeout
_MAX_VERSION = 2**63 - 1  # maximum of a database column
_MAX_DIGITS = 18
# State of proposals, rollouts and access. A lock never blocks a rejection, an abort or a revocation.
UNLOCKED_PREFIXES = ("access/", "proposals/", "rollout/")
_BEFORE_FIRST = -_MAX_VERSION - 2

type AsOf = int | datetime


def now() -> datetime:
    return datetime.now(UTC)


def format_timestamp(time: datetime) -> str:
    """Returns a time as sortable text; without a time zone it is UTC."""
    utc_time = time if time.tzinfo is UTC else time.replace(tzinfo=time.tzinfo or UTC).astimezone(UTC)
    return utc_time.isoformat(timespec="microseconds")


class VersionLedger:
    """Applies changes and reads versions.

    Args:
        change_log: Storage of the changes.
        clock: Returns the time of a change; times never decrease.
    """

    def __init__(self, change_log: ChangeLog, clock: Callable[[], datetime] = now) -> None:
        self.change_log, self._clock, self._gate = change_log, clock, Gate()

    def apply(self, *requests: ChangeRequest) -> Sequence[ChangeEntry | None]:
        """Applies all requests or none; returns the changes, None for requests without an effect.

        Raises:
            ReasonRequired: A request has no reason.
            AccessDenied: The policy or the role of the principal does not allow a change.
            ParameterNotFound: A key does not exist.
            ParameterLocked: A key is locked.
            VersionNotFound: A version does not exist.
            VersionConflict: The newest version is not the expected one.
        """
        for request in requests:
            request.check()
        return retry_transaction(lambda: self._apply(requests))

    def _apply(self, requests: Sequence[ChangeRequest]) -> Sequence[ChangeEntry | None]:
        with self.change_log.begin_write() as writer:
            timestamp = format_timestamp(self._clock())
            requests = self._gate.check(writer, requests)
            changes = [_apply_request(writer, request, request.timestamp or timestamp) for request in requests]
            self._gate.finish(writer, requests)
            return changes

    def add_note(self, request: ChangeRequest) -> ChangeEntry:
        """Adds a note that changes no value, e.g. an approval."""
        entries.check_kind(request.kind)
        entry = self.apply(request)[0]
        assert entry is not None, "a note is always written"
        return entry

    def get(self, key: str, n: int | None = None, as_of: int | None = None) -> ChangeEntry:
        """Returns the newest version of a key or version `n`, now or after the first `as_of` changes.

        Raises:
            ParameterNotFound: The key does not exist.
            VersionNotFound: The key does not have the version, or did not exist then.
        """
        if n is not None and not 0 < n <= _MAX_VERSION:
            raise VersionNotFound(key, n)
        entry = self.change_log.get_head(key, as_of) if n is None else self.change_log.get_version(key, n)
        if entry is not None and (as_of is None or entry.seq <= as_of):
            return entry
        if n is None and as_of is None:
            raise ParameterNotFound(key)
        raise VersionNotFound(key, n if n is not None else f"(as of {as_of})")

    def resolve(self, key: str, as_of: int | None = None) -> ChangeEntry:
        """Resolves a name: a key, KEY@N, or KEY@ALIAS.

        Raises:
            ParameterNotFound: The key does not exist.
            VersionNotFound: The key does not have the version or alias.
        """
        entry = self.change_log.get_head(key, as_of)
        if entry is not None:
            return entry
        base, _, name = key.rpartition("@")
        if not base:
            return self.get(key, None, as_of)
        digits = name.lstrip("0") or "0"
        if name.isascii() and name.isdigit() and len(digits) <= _MAX_DIGITS:
            return self.get(base, int(digits), as_of)
        aliases = self.get_aliases(base, as_of)
        if name in aliases:
            return self.get(base, aliases[name], as_of)
        raise VersionNotFound(base, name) if self.change_log.get_head(base) else ParameterNotFound(key)

    def get_aliases(self, key: str, as_of: int | None = None) -> dict[str, int]:
        """Returns the aliases of a key and their versions."""
        aliases: dict[str, int] = {}
        for entry in self.change_log.list_annotations(key, as_of):
            if entry.kind == entries.ALIAS:
                name = json.loads(entry.value or "null")
                aliases.pop(name, None)
                if entry.target is not None:
                    aliases[name] = entry.target
        return aliases

    def get_lock(self, key: str) -> ChangeEntry | None:
        """Returns the change that locked a key, or None."""
        annotations = reversed(self.change_log.list_annotations(key))
        last = next((entry for entry in annotations if entry.kind in (entries.LOCK, entries.UNLOCK)), None)
        return last if last is not None and last.kind == entries.LOCK else None

    def resolve_as_of(self, as_of: AsOf | None) -> int | None:
        """Converts a time to the number of changes until then."""
        return self.change_log.get_seq_at(format_timestamp(as_of)) if isinstance(as_of, datetime) else as_of

    def iter_all(self) -> Iterator[ChangeEntry]:
        """Yields all changes, including those with a number below 1, which only an edited database can have."""
        return self.iter_entries(after=_BEFORE_FIRST)

    def iter_entries(self, prefix: str = "", after: int = 0, end: int | None = None) -> Iterator[ChangeEntry]:
        """Yields changes in order, read in chunks."""
        while chunk := self.change_log.list_entries(prefix, after, end, CHUNK):
            yield from chunk
            after = chunk[-1].seq

    def follow(self, prefix: str, after: int, timeout: float | None) -> Iterator[ChangeEntry]:
        """Yields changes after `after` of any process as they come; ends after `timeout` seconds without one."""
        while True:
            end = self.change_log.get_end().seq
            yield from self.iter_entries(prefix, after, end)
            after = max(after, end)
            if not self.wait_for_change(after, timeout):
                return

    def wait_for_change(self, after: int, timeout: float | None) -> bool:
        """Waits for a change after `after`; returns False at the timeout."""
        if timeout is not None:
            return self.change_log.wait_for_change(after, timeout)
        while not self.change_log.wait_for_change(after, WAIT_SECONDS):
            pass
        return True


def _apply_request(writer: ChangeWriter, request: ChangeRequest, timestamp: str) -> ChangeEntry | None:
    if request.token is not None and (existing := writer.find_by_token(request.token)) is not None:
        return existing
    n, target, value = None, request.target, request.value
    match request.kind:
        case entries.SET:
            n = _next_version(writer, request)
        case entries.ROLLBACK:
            n, value = _restore_version(writer, request)
        case entries.LOCK | entries.UNLOCK:
            if request.kind == entries.LOCK and request.key.startswith(UNLOCKED_PREFIXES):
                raise errors.SetupError(f"{request.key} cannot be locked: a lock would block its rejection or abort.")
            state = writer.get_state(request.key)
            if state.version == 0:
                raise ParameterNotFound(request.key)
            if request.kind == entries.UNLOCK and state.lock is None:
                return None
            target = state.version
        case entries.ALIAS:
            if not _check_alias_move(writer, request):
                return None
            value = json.dumps(request.name)
    seq, last_hash, last_timestamp = writer.get_end()
    timestamp = max(timestamp, last_timestamp)
    unhashed = ChangeEntry(
        seq + 1, request.key, request.kind, n, target, value, request.reason, request.author, timestamp, request.token
    )
    entry = unhashed.with_hash(last_hash)
    writer.append(entry)
    return entry


def _next_version(writer: ChangeWriter, request: ChangeRequest) -> int:
    state = writer.get_state(request.key)
    if state.lock is not None and not request.key.startswith(UNLOCKED_PREFIXES):
        raise ParameterLocked(request.key, state.lock.author, state.lock.reason)
    _check_expected(request, state.version)
    return state.version + 1


def _restore_version(writer: ChangeWriter, request: ChangeRequest) -> tuple[int, str | None]:
    state = writer.get_state(request.key)
    if state.version == 0:
        raise ParameterNotFound(request.key)
    _check_expected(request, state.version)
    old = writer.get_version(request.key, request.target or 0)
    if old is None:
        raise VersionNotFound(request.key, request.target)
    return state.version + 1, old.value


def _check_alias_move(writer: ChangeWriter, request: ChangeRequest) -> bool:
    """Checks the move of an alias; returns False if nothing changes. If the key is locked, it can only move back."""
    state, last_change = writer.get_state(request.key), writer.get_last_alias_change(request.key, request.name)
    current_target = last_change.target if last_change is not None else None
    if state.version == 0:
        raise ParameterNotFound(request.key)
    is_back = current_target is not None and request.target is not None and request.target < current_target
    if state.lock is not None and not is_back:
        raise ParameterLocked(request.key, state.lock.author, state.lock.reason)
    if request.expected is not None and request.expected != (current_target or 0):
        raise VersionConflict(f"{request.key}@{request.name}", request.expected, current_target or 0)
    if request.target is not None and writer.get_version(request.key, request.target) is None:
        raise VersionNotFound(request.key, request.target)
    return not (request.target is None and current_target is None)


def _check_expected(request: ChangeRequest, actual: int) -> None:
    if request.expected is not None and request.expected != actual:
        raise VersionConflict(request.key, request.expected, actual)


class LedgerVersions:
    """`Versions` on any change log. A parameter value other than a string is returned as JSON text."""

    def __init__(self, change_log: ChangeLog, clock: Callable[[], datetime] = now) -> None:
        self._make_change_log: Callable[[], ChangeLog] = lambda: change_log
        self._clock = clock

    @functools.cached_property
    def ledger(self) -> VersionLedger:
        return VersionLedger(self._make_change_log(), self._clock)

    def get(self, key: str, n: int | None = None) -> versions.Version:
        return _to_version(self.ledger.get(key, n))

    def set(
        self, key: str, value: str, reason: str, author: str, *, expected: int | None = None, token: str | None = None
    ) -> versions.Version:
        text = json.dumps(value)
        return self._create_version(entries.SET, key, reason, author, value=text, expected=expected, token=token)

    def list(self, prefix: str = "") -> Sequence[str]:
        return self.ledger.change_log.list_keys(prefix)

    def history(self, key: str) -> Sequence[versions.Version]:
        return tuple(map(_to_version, self.ledger.change_log.list_history(key, 0)))

    def rollback(self, key: str, n: int, reason: str, author: str) -> versions.Version:
        return self._create_version(entries.ROLLBACK, key, reason, author, target=n)

    def lock(self, key: str, reason: str, author: str) -> None:
        self._apply(entries.LOCK, key, reason, author)

    def unlock(self, key: str, reason: str, author: str) -> None:
        self._apply(entries.UNLOCK, key, reason, author)

    def watch(
        self, prefix: str = "", *, after: int | None = None, timeout: float | None = None
    ) -> Iterator[versions.Version]:
        """Yields new versions of any process, within about 10 ms.

        Args:
            prefix: Prefix of the keys.
            after: Last known change of the store, of any key; 0 yields all. None: only changes after this call.
            timeout: Ends after this many seconds without a change of any key.
        """
        start = self.ledger.change_log.get_end().seq if after is None else after
        return (_to_version(entry) for entry in self.ledger.follow(prefix, start, timeout) if entry.n is not None)

    def _apply(self, kind: str, key: str, reason: str, author: str, **fields: Any) -> ChangeEntry | None:
        versions.validate_change(key, reason, author)
        request = ChangeRequest(kind=kind, key=key, reason=reason, author=author, **fields)
        return self.ledger.apply(request)[0]

    def _create_version(self, kind: str, key: str, reason: str, author: str, **fields: Any) -> versions.Version:
        entry = self._apply(kind, key, reason, author, **fields)
        assert entry is not None, "a version is always created"
        return _to_version(entry)


class StoredVersions(LedgerVersions):
    """Versions in the database, shared by processes. Statements are prepared on first use."""

    def __init__(self, database: Database, clock: Callable[[], datetime] = now) -> None:
        self._make_change_log, self._clock = functools.partial(SQLChangeLog, database), clock


def _to_version(entry: ChangeEntry) -> versions.Version:
    try:
        value = json.loads(entry.value or "null")
    except ValueError as error:
        raise errors.StoreFailed(f"Change {entry.seq} is damaged: {error}. Restore a backup.") from error
    text = value if isinstance(value, str) else entry.value or "null"
    return versions.Version(entry.key, entry.n or 0, text, entry.reason, entry.author)

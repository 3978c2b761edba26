"""Playbook store: versions of one playbook, the history of its deltas, held deltas and retrieval."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import RLock
from types import MappingProxyType
from typing import NamedTuple

from atoll import candidate, errors, versions
from atoll.playbook import serialization
from atoll.playbook.curator import CurationResult, Curator
from atoll.playbook.delta import Delta, Verdict
from atoll.playbook.playbook import Config, Playbook, Stats
from atoll.playbook.refinement import RetiredBullet
from atoll.playbook.retrieval import BulletIndex, Excerpt, format_excerpts, make_excerpts

MIN_PREFIX = 4  # shortest prefix of an id that is accepted


class HeldDelta(NamedTuple):
    """A delta that is held.

    Attributes:
        id: Hash of the delta.
        times: Number of turns that proposed it; `turn` is the last.
        reason: Why the curator would hold it now.
        against: Bullets that conflict with it.
    """

    id: str
    delta: Delta
    times: int
    turn: int
    reason: str
    against: tuple[str, ...]


def make_held_id(delta: Delta) -> str:
    """Returns the id of a held delta."""
    return candidate.content_hash(json.dumps(delta.to_data(), sort_keys=True))[:10]


def list_held(curator: Curator, playbook: Playbook) -> list[HeldDelta]:
    """Returns the held deltas, oldest first, with the current reasons."""
    held_deltas = []
    for held in playbook.held:
        (verdict,) = curator.curate(playbook, [held.delta]).verdicts
        held_deltas.append(HeldDelta(make_held_id(held.delta), *held, verdict.reason, verdict.ids))
    return held_deltas


def decide_held(
    curator: Curator, playbook: Playbook, id: str, reason: str, author: str, *, is_approved: bool
) -> CurationResult:
    """Applies or drops a held delta.

    The reason replaces missing evidence. An approved delta must still be valid and fit into the playbook.

    Raises:
        NotFound: No held delta has this id.
        SetupError: The reason or the author is empty.
        Conflict: The delta cannot be applied.
    """
    if not reason.strip() or not author.strip():
        raise errors.SetupError("A decision needs a reason and an author. Pass both.")
    delta = _find_held(playbook, id)
    remaining = playbook.with_held(entry for entry in playbook.held if entry.delta != delta)
    if not is_approved:
        verdict = Verdict(delta, "rejected", f"{author}: {reason}", delta.ids)
        return CurationResult(remaining.with_turn(playbook.turn + 1), (verdict,), ())
    permissive_curator = Curator(curator.config.model_copy(update={"insist": 1}), count_tokens=curator.count_tokens)
    approved = replace(delta, evidence=delta.evidence.strip() or reason, priority="high")
    result = permissive_curator.curate(remaining, [approved])
    (verdict,) = result.verdicts
    if verdict.outcome != "applied":
        raise errors.Conflict(f"Delta {id} cannot be applied: {verdict.reason}.")
    noted = replace(verdict, reason=f"{verdict.reason}; {author}: {reason}")
    return result._replace(verdicts=(noted,))


def _find_held(playbook: Playbook, id: str) -> Delta:
    matches = [
        entry.delta for entry in playbook.held if len(id) >= MIN_PREFIX and make_held_id(entry.delta).startswith(id)
    ]
    if len(matches) == 1:
        return matches[0]
    ids = ", ".join(make_held_id(entry.delta) for entry in playbook.held) or "none"
    raise errors.NotFound(f"Held delta {id!r:.40} not found. Held: {ids}.")


KEY = "playbook/main"
RETRIES = 20  # attempts; a turn takes a millisecond or two


class PlaybookChange(NamedTuple):
    """Result of a change: version number (0 before the first version), playbook and verdicts."""

    n: int
    playbook: Playbook
    verdicts: tuple[Verdict, ...]


class HistoryEntry(NamedTuple):
    """One version in the history.

    Attributes:
        restored: Version restored by a rollback; None for other changes.
        stored_counts: Counts stored by an evolver: applied, held, rejected, retired.
    """

    n: int
    parent: int
    reason: str
    author: str
    verdicts: tuple[Verdict, ...]
    retired: tuple[RetiredBullet, ...]
    restored: int | None = None
    stored_counts: Mapping[str, int] = MappingProxyType({})

    @property
    def counts(self) -> Mapping[str, int]:
        """Number of deltas applied, held and rejected, and of bullets retired."""
        outcome_counts = Counter(str(verdict.outcome) for verdict in self.verdicts)
        return self.stored_counts or {**outcome_counts, "retired": len(self.retired)}


class PlaybookStore:
    """Stores one playbook with its versions. Thread-safe; other processes may share the versions.

    Args:
        versions: `store.Store(path).versions()` or `store.MemoryVersions()`.
        key: Key of the playbook.
        curator: Decides on deltas.
    """

    def __init__(self, versions: versions.Versions, *, key: str = KEY, curator: Curator | None = None) -> None:
        if not callable(getattr(versions, "history", None)):
            raise errors.SetupError(
                f"A playbook cannot be saved in {versions!r:.60}. Pass store.Store(URL).versions()."
            )
        self.versions, self.key, self.curator = versions, key, curator or Curator()
        self._lock = RLock()
        self._index = BulletIndex()
        self._full_version: serialization.FullVersion | None = None
        self._is_bare = False
        self._head: tuple[int, Playbook] = (0, Playbook())

    @property
    def config(self) -> Config:
        return self.curator.config

    @property
    def version(self) -> int:
        """Number of the current version; 0 before the first."""
        return self._load_head()[0]

    def current(self) -> Playbook:
        """Returns the current playbook, including changes by other processes."""
        return self._load_head()[1]

    def get_version(self, n: int) -> Playbook:
        """Returns the playbook of a version; 0 is the empty playbook.

        Raises:
            NotFound: The version does not exist.
        """
        if n == 0:
            return Playbook()
        with self._lock:
            return self._load_version(self.versions.get(self.key, n))

    def apply(
        self, deltas: Sequence[Delta], reason: str, author: str, *, turn: int | None = None, token: str | None = None
    ) -> PlaybookChange:
        """Lets the curator decide on deltas and stores the result, with all verdicts, as a new version.

        If another writer changed the playbook, the curator decides again on the new version.

        Args:
            deltas: An empty sequence changes nothing.
            reason: Required.
            author: Required.
            turn: Turn number; None means the turn after the last.
            token: A repeated token changes nothing and returns the first result.

        Raises:
            Conflict: The playbook is locked, or other writers were faster 20 times in a row.
            SetupError: The reason or the author is empty.
        """
        if not deltas:
            n, playbook = self._load_head()
            return PlaybookChange(n, playbook, ())
        for _ in range(RETRIES):
            n, playbook = self._load_head()
            result = self.curator.curate(playbook, deltas, turn=turn)
            try:
                return self._save_version(n, result.playbook, result.verdicts, result.retired, reason, author, token)
            except errors.Conflict:
                if self._load_head()[0] == n:
                    raise  # no other writer was faster, so the key is locked
        raise errors.Conflict(f"{self.key} was changed by other writers {RETRIES} times in a row. Try again.")

    def refine(self, reason: str = "grow and refine", author: str = "curator") -> PlaybookChange:
        """Merges, retires and archives bullets. Creates a version only if something changes.

        Raises:
            Conflict: The playbook is locked, or other writers were faster 20 times in a row.
        """
        for _ in range(RETRIES):
            n, playbook = self._load_head()
            refined, retired = self.curator.refine(playbook)
            if refined == playbook:
                return PlaybookChange(n, playbook, ())
            try:
                return self._save_version(n, refined, (), retired, reason, author, None)
            except errors.Conflict:
                if self._load_head()[0] == n:
                    raise
        raise errors.Conflict(f"{self.key} was changed by other writers {RETRIES} times in a row. Try again.")

    def list_held(self) -> Sequence[HeldDelta]:
        """Returns the held deltas, oldest first."""
        return list_held(self.curator, self.current())

    def decide_held(self, id: str, reason: str, author: str, *, is_approved: bool) -> PlaybookChange:
        """Approves or rejects a held delta.

        Args:
            id: Id from `list_held`, or at least 4 characters of its beginning.
            reason: Required.
            author: Required.
            is_approved: True applies the delta; False drops it.

        Raises:
            NotFound: No held delta has this id.
            SetupError: The reason or the author is empty.
            Conflict: The delta cannot be applied, or the playbook is locked or was changed at the same time.
        """
        n, playbook = self._load_head()
        result = decide_held(self.curator, playbook, id, reason, author, is_approved=is_approved)
        return self._save_version(n, result.playbook, result.verdicts, result.retired, reason, author, None)

    def put(self, playbook: Playbook, reason: str, author: str) -> PlaybookChange:
        """Stores a playbook as a new version, unless it equals the current one.

        Raises:
            Conflict: The playbook is locked or was changed at the same time.
        """
        n, previous = self._load_head()
        if previous == playbook:
            return PlaybookChange(n, playbook, ())
        removed = [bullet for id, bullet in previous.bullets.items() if id not in playbook.bullets]
        retired = [RetiredBullet(bullet, playbook.turn, reason) for bullet in removed]
        return self._save_version(n, playbook, (), retired, reason, author, None)

    def rollback(self, n: int, reason: str = "rollback", author: str = "user") -> Playbook:
        """Restores an old version as a new version; 0 is the empty playbook. The history is kept.

        Raises:
            NotFound: The version does not exist.
        """
        if n == 0:
            self.put(Playbook(), reason, author)
            return self.current()
        self.versions.rollback(self.key, n, reason, author)
        return self.current()

    def history(self) -> Sequence[HistoryEntry]:
        """Returns all versions with their verdicts, oldest first."""
        events: list[HistoryEntry] = []
        first_versions: dict[str, int] = {}
        for version in self.versions.history(self.key):
            entry, n = serialization.parse_version(version.value), version.n
            if version.value in first_versions:
                restored = first_versions[version.value]
                events.append(HistoryEntry(n, n - 1, version.reason, version.author, (), (), restored))
                continue
            first_versions[version.value] = n
            parent = entry.parent if entry.parent or n == 1 else n - 1
            details = (entry.verdicts, entry.retired, None, entry.counts)
            events.append(HistoryEntry(n, parent, version.reason, version.author, *details))
        return events

    def list_retired(self) -> Sequence[RetiredBullet]:
        """Returns the bullets retired up to the current version, in order. A rollback undoes later retirements."""
        events = {event.n: event for event in self.history()}
        retired: list[RetiredBullet] = []
        version = max(events, default=0)
        while version in events:
            event = events[version]
            retired += reversed(event.retired)
            version = event.parent if event.restored is None else event.restored
        return retired[::-1]

    def retrieve(self, query: str, limit: int | None = None, chars: int | None = None) -> Sequence[Excerpt]:
        """Returns the bullets that match a query, best first. Harmful bullets rank lower.

        Args:
            query: Any text, such as a question or a state.
            limit: Maximum number of bullets; None means `context_limit`.
            chars: Maximum characters of each; None means `context_chars`.
        """
        config = self.config.model_copy(
            update={
                "context_limit": self.config.context_limit if limit is None else limit,
                "context_chars": self.config.context_chars if chars is None else chars,
            }
        )
        with self._lock:
            return make_excerpts(self.current(), query, config, self.curator.meaning, self._index)

    def format_context(self, query: str, limit: int | None = None, chars: int | None = None) -> str:
        """Returns the result of `retrieve` for a prompt: one line per bullet, with its id and counts."""
        return format_excerpts(self.retrieve(query, limit, chars))

    def stats(self) -> Stats:
        return self.current().stats()

    def _save_version(
        self,
        parent: int,
        playbook: Playbook,
        verdicts: Sequence[Verdict],
        retired: Sequence[RetiredBullet],
        reason: str,
        author: str,
        token: str | None,
    ) -> PlaybookChange:
        with self._lock:
            base, is_bare = self._full_version, self._is_bare
            value, is_full = serialization.serialize_version(playbook, parent, base, verdicts, retired, is_bare=is_bare)
            version = self.versions.set(self.key, value, reason, author, expected=parent, token=token)
            if version.value != value:  # the token was used before, for example before a crash
                stored = serialization.parse_version(version.value)
                return PlaybookChange(version.n, self._load_version(version), stored.verdicts)
            self._head = version.n, playbook
            if is_full:
                self._full_version = serialization.FullVersion(version.n, playbook)
        return PlaybookChange(version.n, playbook, tuple(verdicts))

    def _load_head(self) -> tuple[int, Playbook]:
        with self._lock:
            try:
                version = self.versions.get(self.key)
            except errors.NotFound:
                return 0, Playbook()
            if version.n != self._head[0]:
                self._head = version.n, self._load_version(version)
            return self._head

    def _load_version(self, version: versions.Version) -> Playbook:
        entry = serialization.parse_version(version.value)
        self._is_bare = entry.is_bare
        if entry.base is None:
            self._full_version = serialization.FullVersion(version.n, serialization.load_full(entry))
            return self._full_version.playbook
        if self._full_version is None or self._full_version.n != entry.base:
            base_version = self.versions.get(self.key, entry.base)
            base = serialization.load_full(serialization.parse_version(base_version.value))
            self._full_version = serialization.FullVersion(base_version.n, base)
        return serialization.apply_patch(self._full_version.playbook, entry)

"""A playbook that lasts: its versions, what became of every delta, and the bullets that a moment calls for."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from threading import RLock
from types import MappingProxyType
from typing import NamedTuple

from atoll import candidate, errors, versions
from atoll.playbook import serialization
from atoll.playbook.bm25_index import BulletIndex
from atoll.playbook.bullet import Bullet
from atoll.playbook.config import Config
from atoll.playbook.curator import CurationResult, Curator
from atoll.playbook.delta import Delta, Verdict
from atoll.playbook.playbook import Playbook, Stats
from atoll.playbook.refinement import RetiredBullet

MIN_PREFIX = 4  # letters of a name that somebody may type instead of all of it


class HeldDelta(NamedTuple):
    """A delta that is held.

    Attributes:
        id: Names it, whatever else waits: a digest of what it says.
        times: How often it came up, and `turn` when last.
        reason: Why it waits, as the curator would say now.
        against: The bullets that stand against it.
    """

    id: str
    delta: Delta
    times: int
    turn: int
    reason: str
    against: tuple[str, ...]


def make_held_id(delta: Delta) -> str:
    """Returns what a held delta is called."""
    return candidate.content_hash(json.dumps(delta.to_data(), sort_keys=True))[:10]


def list_held(curator: Curator, playbook: Playbook) -> list[HeldDelta]:
    """Returns what waits, the oldest first, each with why it would wait again."""
    held_deltas = []
    for held in playbook.held:
        (verdict,) = curator.curate(playbook, [held.delta]).verdicts
        held_deltas.append(HeldDelta(make_held_id(held.delta), *held, verdict.reason, verdict.ids))
    return held_deltas


def decide_held(
    curator: Curator, playbook: Playbook, id: str, reason: str, author: str, *, is_approved: bool
) -> CurationResult:
    """Returns a playbook after a person's decision about what waits.

    What is applied needs no more evidence than the person's reason; it must still be fit to be a bullet and find room.

    Raises:
        NotFound: Nothing of that name waits.
        SetupError: The reason or the name of the person is empty.
        Conflict: It cannot be applied; the message says why.
    """
    if not reason.strip() or not author.strip():
        raise errors.SetupError("A decision needs a reason and a name: say why, and who you are.")
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
        raise errors.Conflict(f"It cannot be applied: {verdict.reason}.")
    noted = replace(verdict, reason=f"{verdict.reason}; {author}: {reason}")
    return result._replace(verdicts=(noted,))


def _find_held(playbook: Playbook, id: str) -> Delta:
    matches = [
        entry.delta for entry in playbook.held if len(id) >= MIN_PREFIX and make_held_id(entry.delta).startswith(id)
    ]
    if len(matches) == 1:
        return matches[0]
    ids = ", ".join(make_held_id(entry.delta) for entry in playbook.held) or "nothing"
    raise errors.NotFound(f"No delta {id!r:.40} waits: there is {ids}.")


KEY = "playbook/main"
RETRIES = 20  # a turn takes a millisecond or two: whoever loses so often in a row is told


class PlaybookChange(NamedTuple):
    """What `apply` did: the version that it made (0: none was needed), the playbook now, and the verdicts."""

    n: int
    playbook: Playbook
    verdicts: tuple[Verdict, ...]


class HistoryEntry(NamedTuple):
    """A version of the history.

    Attributes:
        restored: The version that a rollback brought back; None: it is no rollback.
        told: What a kernel step counted itself, of many deltas at once: applied, held, rejected, retired.
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
        """Returns how many were applied, held, rejected and retired."""
        outcome_counts = Counter(str(verdict.outcome) for verdict in self.verdicts)
        return self.stored_counts or {**outcome_counts, "retired": len(self.retired)}


class Excerpt(NamedTuple):
    """A bullet that fits a query, and as much of it as was asked for."""

    bullet: Bullet
    score: float
    text: str


class PlaybookStore:
    """Keeps one playbook among versions. Threads may share it, and other processes the versions.

    Args:
        versions: Where it is kept: `store.Store(path).versions()` or `store.MemoryVersions()`.
        key: Which playbook.
        curator: Who decides on deltas.
    """

    def __init__(self, versions: versions.Versions, *, key: str = KEY, curator: Curator | None = None) -> None:
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
        """The number of the head; 0 before there is one."""
        return self._load_head()[0]

    def current(self) -> Playbook:
        """Returns the playbook as it is now, whoever changed it last."""
        return self._load_head()[1]

    def get_version(self, n: int) -> Playbook:
        """Returns the playbook of a version.

        Raises:
            NotFound: There is no such version.
        """
        if n == 0:
            return Playbook()
        with self._lock:
            return self._load_version(self.versions.get(self.key, n))

    def apply(
        self, deltas: Sequence[Delta], reason: str, author: str, *, turn: int | None = None, token: str | None = None
    ) -> PlaybookChange:
        """Has the curator decide on deltas and keeps what comes of it as a version, what was refused included.

        Somebody else's change meanwhile is no obstacle: the curator decides anew, on what is there now.

        Args:
            deltas: Without any, nothing happens.
            reason: Why; compulsory.
            author: Who.
            turn: When; None: the turn after the last.
            token: The same token again changes nothing and returns what it made.

        Raises:
            Conflict: The playbook is locked, or others were faster 20 times in a row.
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
                    raise  # nobody was faster: it is locked
        raise errors.Conflict(f"{self.key} changed {RETRIES} times while a change to it was decided: try again.")

    def refine(self, reason: str = "grow and refine", author: str = "curator") -> PlaybookChange:
        """Merges, retires and archives; makes a version only if something changes.

        Raises:
            Conflict: The playbook is locked, or others were faster 20 times in a row.
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
        raise errors.Conflict(f"{self.key} changed {RETRIES} times while it was refined: try again.")

    def list_held(self) -> Sequence[HeldDelta]:
        """Returns the deltas that wait for more evidence or for a person, the oldest first."""
        return list_held(self.curator, self.current())

    def decide_held(self, id: str, reason: str, author: str, *, is_approved: bool) -> PlaybookChange:
        """Takes down what a person decides about a delta that waits: it is applied, or it waits no longer.

        Args:
            id: As `waiting` names it, or the beginning of that.
            reason: Why; compulsory.
            author: Who.
            is_applied: What was decided.

        Raises:
            NotFound: Nothing of that name waits.
            SetupError: The reason or the author is empty.
            Conflict: It cannot be applied, the playbook is locked, or somebody else changed it at this moment.
        """
        n, playbook = self._load_head()
        result = decide_held(self.curator, playbook, id, reason, author, is_approved=is_approved)
        return self._save_version(n, result.playbook, result.verdicts, result.retired, reason, author, None)

    def put(self, playbook: Playbook, reason: str, author: str) -> PlaybookChange:
        """Makes a whole playbook the head, as somebody wrote it; no version is made of what is there already.

        Raises:
            Conflict: The playbook is locked, or somebody else changed it at this moment.
        """
        n, previous = self._load_head()
        if previous == playbook:
            return PlaybookChange(n, playbook, ())
        removed = [bullet for id, bullet in previous.bullets.items() if id not in playbook.bullets]
        retired = [RetiredBullet(bullet, playbook.turn, reason) for bullet in removed]
        return self._save_version(n, playbook, (), retired, reason, author, None)

    def rollback(self, n: int, reason: str = "rollback", author: str = "user") -> Playbook:
        """Makes an old version the head again, as a new version: nothing of the history is lost.

        Raises:
            NotFound: There is no such version.
        """
        self.versions.rollback(self.key, n, reason, author)
        return self.current()

    def history(self) -> Sequence[HistoryEntry]:
        """Returns all versions, oldest first, with the verdicts on what was proposed."""
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
        """Returns what went on the way to the head, in its order; a rollback takes back what went after its version."""
        events = {event.n: event for event in self.history()}
        retired: list[RetiredBullet] = []
        version = max(events, default=0)
        while version in events:
            event = events[version]
            retired += reversed(event.retired)
            version = event.parent if event.restored is None else event.restored
        return retired[::-1]

    def retrieve(self, query: str, limit: int | None = None, chars: int | None = None) -> Sequence[Excerpt]:
        """Returns the bullets that fit a query best, the best first; what did harm comes later, or not at all.

        Args:
            query: Any text: a question, a state.
            limit: So many at most; None: `context_limit`.
            chars: So much of each; None: `context_chars`.
        """
        playbook = self.current()
        max_results = self.config.context_limit if limit is None else limit
        max_chars = self.config.context_chars if chars is None else chars
        with self._lock:
            self._index.sync(playbook.bullets)
            hits = self._index.search(query, max_results, compute_reliability)
        matches = [(playbook.bullets[hit.id], hit.score) for hit in hits]
        return [Excerpt(bullet, score, _truncate(bullet.content, max_chars)) for bullet, score in matches]

    def format_context(self, query: str, limit: int | None = None, chars: int | None = None) -> str:
        """Returns the same for a prompt: a line each, with its id."""
        return "\n".join(f"[{excerpt.bullet.id}] {excerpt.text}" for excerpt in self.retrieve(query, limit, chars))

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
            if version.value != value:  # the token's, from before a crash
                return PlaybookChange(
                    version.n, self._load_version(version), serialization.parse_version(version.value).verdicts
                )
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
            self._full_version = serialization.FullVersion(
                base_version.n, serialization.load_full(serialization.parse_version(base_version.value))
            )
        return serialization.apply_patch(self._full_version.playbook, entry)


def compute_reliability(bullet: Bullet) -> float:
    """Weighs a bullet by what became of using it: 1 at first, up to 2, and towards 0 with the harm that it did."""
    return 2.0 * (bullet.helpful + 1.0) / (bullet.helpful + bullet.harmful + 2.0)


def _truncate(text: str, max_chars: int) -> str:
    return text if len(text) <= max_chars else f"{text[: max(0, max_chars - 1)].rstrip()}…"

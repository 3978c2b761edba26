"""Whether a log is what was written: every entry, in its order, to its end.

A chain of hashes shows an entry that was edited, left out or moved. It cannot show a tail that was cut off, nor a
chain that was written anew from the first entry: for those there are anchors, which are kept elsewhere.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from atoll import errors
from atoll.store.versions.change import GENESIS, ChangeEntry, compute_hash
from atoll.store.versions.change_log import LogEnd
from atoll.store.versions.errors import ChainBroken


class Anchor(NamedTuple):
    """The end of a log at some moment.

    Attributes:
        signature: HMAC-SHA256 of the rest under a key that only its owner has, or empty.
    """

    seq: int
    hash: str
    at: str
    signature: str = ""

    @classmethod
    def from_log_end(cls, end: LogEnd, key: bytes | None = None) -> "Anchor":
        """Returns the end of a book, signed if there is a key."""
        anchor = cls(end.seq, end.hash, end.timestamp)
        return anchor if key is None else anchor._replace(signature=anchor.sign(key))

    @classmethod
    def parse(cls, line: str) -> "Anchor":
        """Reads what `line` wrote.

        Raises:
            SetupError: It is no anchor.
        """
        try:
            data = json.loads(line)
            anchor = cls(int(data["seq"]), str(data["hash"]), str(data["at"]), str(data.get("signature", "")))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise errors.SetupError(f"{line!r:.80} is no anchor: give what 'atoll audit anchor' wrote.") from error
        return anchor

    def to_line(self) -> str:
        return json.dumps(self._asdict())

    def sign(self, key: bytes) -> str:
        return hmac.new(key, json.dumps(self[:3]).encode(), hashlib.sha256).hexdigest()

    def check_signature(self, key: bytes) -> None:
        """Raises `ChainBroken` for a signature that is not of this key."""
        if not hmac.compare_digest(self.sign(key), self.signature):
            raise ChainBroken(f"The anchor of change {self.seq} is not signed with this key.", self.seq)


class AuditReport(NamedTuple):
    """What was verified."""

    seq: int
    hash: str
    num_anchors: int = 0


def verify(log: Iterable[ChangeEntry], anchors: Sequence[Anchor] = ()) -> AuditReport:
    """Checks a log from its first entry to its last.

    Raises:
        ChainBroken: An entry was edited, left out or moved, or an anchor is not met; says where.
    """
    anchor_hashes = _index_anchors(anchors)
    seq, last_hash = 0, GENESIS
    try:
        for entry in log:
            seq += 1
            if entry.seq != seq:
                raise ChainBroken(f"Change {seq} is missing: change {entry.seq} stands in its place.", seq)
            if compute_hash(last_hash, entry.to_canonical_json()) != entry.hash:
                raise ChainBroken(f"Change {seq} is not what was written: it, or its place, was changed.", seq)
            last_hash = entry.hash
            if anchor_hashes.get(seq, last_hash) != last_hash:
                raise ChainBroken(f"Change {seq} is another one than its anchor says: the log was rewritten.", seq)
    except (TypeError, ValueError, errors.StoreFailed) as error:
        raise ChainBroken(f"Change {seq + 1} or one soon behind it cannot be read: {error}", seq + 1) from error
    if anchor_hashes and max(anchor_hashes) > seq:
        raise ChainBroken(
            f"The log ends at change {seq}; an anchor knows change {max(anchor_hashes)}: it was cut.", seq + 1
        )
    return AuditReport(seq, last_hash, len(anchors))


def _index_anchors(anchors: Sequence[Anchor]) -> dict[int, str]:
    hashes: dict[int, str] = {}
    for anchor in anchors:
        if hashes.setdefault(anchor.seq, anchor.hash) != anchor.hash:
            raise ChainBroken(
                f"Two anchors of change {anchor.seq} differ: the log was rewritten between them.", anchor.seq
            )
    if hashes.get(0, GENESIS) != GENESIS:
        raise ChainBroken("An anchor of nothing names a hash: it was changed.", 0)
    return hashes


def format_line(entry: ChangeEntry) -> str:
    """Returns an entry as a line of a log in a file."""
    return f'{entry.to_canonical_json()[:-1]},"hash":"{entry.hash}"}}'


def parse_line(text: str) -> ChangeEntry:
    """Reads a line to the letter.

    Raises:
        ValueError: It is not what `line` writes.
    """
    try:
        fields: Any = json.loads(text)
    except RecursionError:
        raise ValueError("a line of the log is nested beyond all measure") from None
    if not isinstance(fields, dict) or fields.keys() != set(ChangeEntry._fields):
        raise ValueError("a line of the log has other fields than it should")
    entry = ChangeEntry(**fields)
    if format_line(entry) != text:
        raise ValueError("a line of the log is not written as it should be")
    return entry


def parse_lines(lines: Iterable[str]) -> Iterator[ChangeEntry]:
    """Yields the entries of a log in a file; raises as `read_line` does."""
    return (parse_line(line) for line in lines)

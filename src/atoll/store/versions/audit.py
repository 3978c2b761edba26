"""Verifies the change log.

The hash chain detects changes that were edited, removed or moved. It cannot detect a truncated log or a chain that was
rewritten from the start. Anchors, which are kept outside the store, detect these.
"""

import hashlib
import hmac
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from atoll import errors
from atoll.store.versions.change import GENESIS, ChangeEntry, LogEnd, compute_hash
from atoll.store.versions.errors import ChainBroken


class Anchor(NamedTuple):
    """End of a change log at some time.

    Attributes:
        signature: HMAC-SHA256 of the other fields with a secret key, or empty.
    """

    seq: int
    hash: str
    at: str
    signature: str = ""

    @classmethod
    def from_log_end(cls, end: LogEnd, key: bytes | None = None) -> "Anchor":
        """Creates an anchor, signed if a key is given."""
        anchor = cls(end.seq, end.hash, end.timestamp)
        return anchor if key is None else anchor._replace(signature=anchor.sign(key))

    @classmethod
    def parse(cls, line: str) -> "Anchor":
        """Parses the result of `to_line`.

        Raises:
            SetupError: The line is not an anchor.
        """
        try:
            data = json.loads(line)
            anchor = cls(int(data["seq"]), str(data["hash"]), str(data["at"]), str(data.get("signature", "")))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise errors.SetupError(f"{line!r:.80} is not an anchor. Pass output of 'atoll audit anchor'.") from error
        return anchor

    def to_line(self) -> str:
        return json.dumps(self._asdict())

    def sign(self, key: bytes) -> str:
        return hmac.new(key, json.dumps(self[:3]).encode(), hashlib.sha256).hexdigest()

    def check_signature(self, key: bytes) -> None:
        """Raises `ChainBroken` if the signature does not match the key."""
        if not hmac.compare_digest(self.sign(key), self.signature):
            raise ChainBroken(f"The anchor of change {self.seq} is not signed with this key.", self.seq)


class AuditReport(NamedTuple):
    """Verified end of a log, and number of anchors."""

    seq: int
    hash: str
    num_anchors: int = 0


def verify(log: Iterable[ChangeEntry], anchors: Sequence[Anchor] = ()) -> AuditReport:
    """Verifies a log from its first change to its last.

    Raises:
        ChainBroken: A change was edited, removed or moved, or an anchor does not match; the message says where.
    """
    anchor_hashes = _index_anchors(anchors)
    seq, last_hash = 0, GENESIS
    try:
        for entry in log:
            seq += 1
            if entry.seq != seq:
                raise ChainBroken(f"Change {seq} is missing; change {entry.seq} is in its place.", seq)
            if compute_hash(last_hash, entry.to_canonical_json()) != entry.hash:
                raise ChainBroken(f"Change {seq} does not match its hash: it was edited or moved.", seq)
            last_hash = entry.hash
            if anchor_hashes.get(seq, last_hash) != last_hash:
                raise ChainBroken(f"Change {seq} does not match its anchor: the log was rewritten.", seq)
    except (TypeError, ValueError, errors.StoreFailed) as error:
        raise ChainBroken(f"Change {seq + 1} or one soon after it cannot be read: {error}", seq + 1) from error
    if anchor_hashes and max(anchor_hashes) > seq:
        raise ChainBroken(
            f"The log ends at change {seq}, but has an anchor for change {max(anchor_hashes)}: it was truncated.",
            seq + 1,
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
        raise ChainBroken("The anchor of an empty log has a hash: it was edited.", 0)
    return hashes


def format_line(entry: ChangeEntry) -> str:
    """Formats a change as a line of an exported log."""
    return f'{entry.to_canonical_json()[:-1]},"hash":"{entry.hash}"}}'


def parse_line(text: str) -> ChangeEntry:
    """Parses a line of `format_line` strictly.

    Raises:
        ValueError: The line differs from the output of `format_line`.
    """
    try:
        fields: Any = json.loads(text)
    except RecursionError:
        raise ValueError("a line of the log is nested too deep") from None
    if not isinstance(fields, dict) or fields.keys() != set(ChangeEntry._fields):
        raise ValueError("a line of the log has unexpected fields")
    entry = ChangeEntry(**fields)
    if format_line(entry) != text:
        raise ValueError("a line of the log is not in canonical form")
    return entry


def parse_lines(lines: Iterable[str]) -> Iterator[ChangeEntry]:
    """Yields the changes of an exported log; raises like `parse_line`."""
    return (parse_line(line) for line in lines)

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
from atoll.store.book import Tail
from atoll.store.entry import GENESIS, Entry, digest
from atoll.store.refusals import ChainBroken


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
    def of(cls, tail: Tail, key: bytes | None = None) -> "Anchor":
        """Returns the end of a book, signed if there is a key."""
        plain = cls(tail.seq, tail.hash, tail.at)
        return plain if key is None else plain._replace(signature=plain.sign(key))

    @classmethod
    def read(cls, line: str) -> "Anchor":
        """Reads what `line` wrote.

        Raises:
            SetupError: It is no anchor.
        """
        try:
            found = json.loads(line)
            made = cls(int(found["seq"]), str(found["hash"]), str(found["at"]), str(found.get("signature", "")))
        except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
            raise errors.SetupError(f"{line!r:.80} is no anchor: give what 'atoll audit anchor' wrote.") from error
        return made

    def line(self) -> str:
        return json.dumps(self._asdict())

    def sign(self, key: bytes) -> str:
        return hmac.new(key, json.dumps(self[:3]).encode(), hashlib.sha256).hexdigest()

    def check(self, key: bytes) -> None:
        """Raises `ChainBroken` for a signature that is not of this key."""
        if not hmac.compare_digest(self.sign(key), self.signature):
            raise ChainBroken(f"The anchor of change {self.seq} is not signed with this key.", self.seq)


class Report(NamedTuple):
    """What was verified."""

    seq: int
    hash: str
    num_anchors: int = 0


def verify(log: Iterable[Entry], anchors: Sequence[Anchor] = ()) -> Report:
    """Checks a log from its first entry to its last.

    Raises:
        ChainBroken: An entry was edited, left out or moved, or an anchor is not met; says where.
    """
    wanted = _by_seq(anchors)
    seq, last = 0, GENESIS
    try:
        for each in log:
            seq += 1
            if each.seq != seq:
                raise ChainBroken(f"Change {seq} is missing: change {each.seq} stands in its place.", seq)
            if digest(last, each.canonical()) != each.hash:
                raise ChainBroken(f"Change {seq} is not what was written: it, or its place, was changed.", seq)
            last = each.hash
            if wanted.get(seq, last) != last:
                raise ChainBroken(f"Change {seq} is another one than its anchor says: the log was rewritten.", seq)
    except (TypeError, ValueError, errors.StoreFailed) as error:
        raise ChainBroken(f"Change {seq + 1} or one soon behind it cannot be read: {error}", seq + 1) from error
    if wanted and max(wanted) > seq:
        raise ChainBroken(f"The log ends at change {seq}; an anchor knows change {max(wanted)}: it was cut.", seq + 1)
    return Report(seq, last, len(anchors))


def _by_seq(anchors: Sequence[Anchor]) -> dict[int, str]:
    found: dict[int, str] = {}
    for each in anchors:
        if found.setdefault(each.seq, each.hash) != each.hash:
            raise ChainBroken(f"Two anchors of change {each.seq} differ: the log was rewritten between them.", each.seq)
    if found.get(0, GENESIS) != GENESIS:
        raise ChainBroken("An anchor of nothing names a hash: it was changed.", 0)
    return found


def line(entry: Entry) -> str:
    """Returns an entry as a line of a log in a file."""
    return f'{entry.canonical()[:-1]},"hash":"{entry.hash}"}}'


def read_line(text: str) -> Entry:
    """Reads a line to the letter.

    Raises:
        ValueError: It is not what `line` writes.
    """
    try:
        found: Any = json.loads(text)
    except RecursionError:
        raise ValueError("a line of the log is nested beyond all measure") from None
    if not isinstance(found, dict) or found.keys() != set(Entry._fields):
        raise ValueError("a line of the log has other fields than it should")
    made = Entry(**found)
    if line(made) != text:
        raise ValueError("a line of the log is not written as it should be")
    return made


def read_lines(lines: Iterable[str]) -> Iterator[Entry]:
    """Yields the entries of a log in a file; raises as `read_line` does."""
    return (read_line(each) for each in lines)

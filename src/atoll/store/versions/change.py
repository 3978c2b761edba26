"""One change of the change log, its hash, and checks of its fields.

    hash = sha256(hash of the previous change ‖ canonical JSON of the change)

The canonical form is that of RFC 8785, which is simple because a change is flat: strings, integers and null. A value is
included as JSON text, so the hash does not depend on the format of numbers.
"""

import hashlib
import re
from json.encoder import encode_basestring as quoted  # escapes as RFC 8785 does
from typing import NamedTuple

from atoll import errors
from atoll.store.versions.errors import InvalidKey, ReasonRequired

GENESIS = "0" * 64  # hash before the first change
SET, ROLLBACK, LOCK, UNLOCK, ALIAS = "set", "rollback", "lock", "unlock", "alias"
KINDS = (SET, ROLLBACK, LOCK, UNLOCK, ALIAS)
MAX_KEY_LENGTH = 512  # characters
_INVALID_IN_KEY = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class ChangeEntry(NamedTuple):
    """Change of a key.

    Attributes:
        seq: Number of the change in the store, from 1.
        kind: `set`, `rollback`, `lock`, `unlock`, `alias`, or the kind of a note, e.g. `approve`.
        n: Version that it created, or None.
        target: Version that a rollback copied, a lock found, or an alias points at.
        value: JSON text of the value; of an alias, its name.
        at: Time in UTC, as sortable text.
        token: A change with a known token is ignored.
    """

    seq: int
    key: str
    kind: str
    n: int | None
    target: int | None
    value: str | None
    reason: str
    author: str
    at: str
    token: str | None
    hash: str = ""

    def to_canonical_json(self) -> str:
        seq, key, kind, n, target, value, reason, author, at, token, _ = self
        return (
            f'{{"at":{quoted(at)},"author":{quoted(author)},"key":{quoted(key)},"kind":{quoted(kind)},'
            f'"n":{"null" if n is None else n},"reason":{quoted(reason)},"seq":{seq},'
            f'"target":{"null" if target is None else target},'
            f'"token":{"null" if token is None else quoted(token)},'
            f'"value":{"null" if value is None else quoted(value)}}}'
        )

    def with_hash(self, previous_hash: str) -> "ChangeEntry":
        """Returns the change with its hash; `previous_hash` is that of the previous change."""
        return ChangeEntry(*self[:-1], compute_hash(previous_hash, self.to_canonical_json()))


def compute_hash(previous_hash: str, canonical_json: str) -> str:
    return hashlib.sha256(bytes.fromhex(previous_hash) + canonical_json.encode("utf-8", "surrogatepass")).hexdigest()


def check_reason(reason: str) -> None:
    """Raises `ReasonRequired` for an empty reason."""
    if not reason.strip():
        raise ReasonRequired("The reason of a change is empty. Pass a reason.")


def check_author(author: str) -> None:
    if not author.strip():
        raise errors.SetupError("The author of a change is empty. Pass an author.")


def check_texts(*texts: str) -> None:
    """Raises `SetupError` for texts with a zero byte or a surrogate, which cannot be stored."""
    for text in texts:
        if (not text.isascii() or "\0" in text) and (match := _UNSTORABLE.search(text)):
            raise errors.SetupError(f"{text!r:.80} contains {match[0]!r}, which cannot be stored. Remove it.")


def check_key(key: str) -> None:
    """Raises `InvalidKey` for a key that is empty, too long, or contains control characters or surrogates."""
    if not key.strip():
        raise InvalidKey("The key of a change is empty. Pass a key.")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidKey(f"A key has {len(key)} characters; the maximum is {MAX_KEY_LENGTH}.")
    if (not key.isascii() or not key.isprintable()) and (match := _INVALID_IN_KEY.search(key)):
        raise InvalidKey(f"{key!r:.80} contains {match[0]!r}, which cannot be stored. Remove it.")


def check_kind(kind: str) -> None:
    """Raises `SetupError` for a kind of note that is one of `KINDS` or not a plain word."""
    if kind in KINDS or not _KIND.fullmatch(kind):
        raise errors.SetupError(f"{kind!r} is not a kind of note. Use a plain word other than {', '.join(KINDS)}.")

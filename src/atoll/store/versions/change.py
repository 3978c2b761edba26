"""One change, as the ledger and the audit log keep it.

    hash = sha256(hash of the entry before ‖ canonical JSON of the entry)

The canonical form is that of RFC 8785. It is simple to write because an entry is flat: texts, whole numbers and null.
A value stands in it as the text of its JSON, so nothing hangs on how somebody writes a number.
"""

import hashlib
import re
from json.encoder import encode_basestring as quoted  # escapes what RFC 8785 escapes, and in the same way
from typing import NamedTuple

from atoll import errors
from atoll.store.versions import errors as versions_errors

GENESIS = "0" * 64  # the hash before the first entry
SET, ROLLBACK, LOCK, UNLOCK, ALIAS = "set", "rollback", "lock", "unlock", "alias"
KINDS = (SET, ROLLBACK, LOCK, UNLOCK, ALIAS)
MAX_KEY_LENGTH = 512  # characters
_INVALID_IN_KEY = re.compile("[\x00-\x1f\x7f\ud800-\udfff]")
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,39}")


class ChangeEntry(NamedTuple):
    """A change of a key.

    Attributes:
        seq: Counts all changes of a store from 1.
        kind: `set`, `rollback`, `lock`, `unlock`, `alias`, or the kind of a note, e.g. `approve`.
        n: The version that it made; None for what makes none.
        target: The version that it is about: what a rollback copied, a lock found, an alias points at.
        value: JSON text; of an alias, its name.
        at: UTC, as text that sorts.
        token: The same token again changes nothing.
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
        """Returns what is hashed."""
        seq, key, kind, n, target, value, reason, author, at, token, _ = self
        return (
            f'{{"at":{quoted(at)},"author":{quoted(author)},"key":{quoted(key)},"kind":{quoted(kind)},'
            f'"n":{"null" if n is None else n},"reason":{quoted(reason)},"seq":{seq},'
            f'"target":{"null" if target is None else target},'
            f'"token":{"null" if token is None else quoted(token)},'
            f'"value":{"null" if value is None else quoted(value)}}}'
        )

    def with_hash(self, previous_hash: str) -> "ChangeEntry":
        """Returns it with its hash, behind an entry of hash `before`."""
        return ChangeEntry(*self[:-1], compute_hash(previous_hash, self.to_canonical_json()))


def compute_hash(previous_hash: str, canonical_json: str) -> str:
    return hashlib.sha256(bytes.fromhex(previous_hash) + canonical_json.encode("utf-8", "surrogatepass")).hexdigest()


def check_reason(reason: str) -> None:
    """Refuses a change that does not say why.

    Raises:
        ReasonRequired: The reason is empty, or only blanks.
    """
    if not reason.strip():
        raise versions_errors.ReasonRequired("A version needs a reason: say which, why and who.")


def check_author(author: str) -> None:
    if not author.strip():
        raise errors.SetupError("A version needs an author: say which, why and who.")


def check_texts(*texts: str) -> None:
    """Refuses texts that no database and no file could give back.

    Raises:
        SetupError: There is a zero byte or half a character in one.
    """
    for text in texts:
        if (not text.isascii() or "\0" in text) and (match := _UNSTORABLE.search(text)):
            raise errors.SetupError(f"{text!r:.80} holds {match[0]!r}, which is no text: leave it out.")


def check_key(key: str) -> None:
    """Refuses what cannot be a key.

    Raises:
        InvalidKey: It is empty, too long, or holds what is no text.
    """
    if not key.strip():
        raise versions_errors.InvalidKey("A version needs a key: say which, why and who.")
    if len(key) > MAX_KEY_LENGTH:
        raise versions_errors.InvalidKey(f"A key of {len(key)} characters is too long: {MAX_KEY_LENGTH} are the most.")
    if (not key.isascii() or not key.isprintable()) and (match := _INVALID_IN_KEY.search(key)):
        raise versions_errors.InvalidKey(f"{key!r:.80} holds {match[0]!r}, which is no text: leave it out.")


def check_kind(kind: str) -> None:
    """Refuses a kind of note that could be taken for a change.

    Raises:
        SetupError: It is one of `KINDS`, or no plain word.
    """
    if kind in KINDS or not _KIND.fullmatch(kind):
        raise errors.SetupError(f"{kind!r} is no kind of note: give a plain word that is none of {', '.join(KINDS)}.")

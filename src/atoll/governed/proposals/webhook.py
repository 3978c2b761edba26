"""Decisions that come as signed messages: from a chat, a ticket system, a page of one's own."""

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from atoll import errors
from atoll.governed.errors import VersionConflict
from atoll.governed.parameters import ParameterStore
from atoll.governed.proposals.proposal import Proposal
from atoll.governed.proposals.proposals import Proposals, now

NONCES = "nonces/"
_SHORTEST_KEY, _MOST_BYTES = 16, 100_000
_FIELDS = ("proposal", "content_hash", "by", "approve", "reason", "nonce", "at")


class Forged(errors.AtollError):
    """A message is not signed by whoever has the key, is too old, or came before."""


class SignedDecisions:
    """Takes decisions that are signed with a shared key: HMAC-SHA256 of the body, each nonce once.

    The body is JSON with `proposal`, `content_hash`, `by`, `approve`, `reason`, `nonce` and `at` (ISO 8601).

    Args:
        key: At least 16 bytes, from the environment by name; it is never stored.
        tolerance: How old, or how far ahead, a message may be.
    """

    def __init__(
        self,
        proposals: Proposals,
        store: ParameterStore,
        key: bytes,
        *,
        tolerance: timedelta = timedelta(minutes=5),
        clock: Callable[[], datetime] = now,
    ) -> None:
        if len(key) < _SHORTEST_KEY:
            raise errors.SetupError(f"The key of the webhook has {len(key)} bytes: give at least {_SHORTEST_KEY}.")
        self._proposals, self._store, self._key = proposals, store, key
        self._tolerance, self._clock = tolerance, clock

    def accept(self, body: bytes, signature: str) -> Proposal:
        """Takes one message and returns the proposal as it stands then.

        Args:
            body: As it came, byte for byte.
            signature: `sha256=` and hexadecimal digits, or the digits alone.

        Raises:
            Forged: The signature, the time or the nonce is wrong; nothing changed.
            Decided: It is right and comes too late, or its author may not decide.
        """
        if len(body) > _MOST_BYTES or not _is_same(sign(body, self._key), signature):
            raise Forged("The signature of the message is wrong.")
        said = _read(body)
        if abs(self._clock() - said["at"]) > self._tolerance:
            raise Forged("The message is too old, or its clock is wrong.")
        self._use(said["nonce"], said["by"])
        return self._proposals.decide(
            said["proposal"],
            said["by"],
            approve=said["approve"],
            reason=said["reason"],
            content_hash=said["content_hash"],
        )

    def _use(self, nonce: str, by: str) -> None:
        digest = hashlib.sha256(nonce.encode()).hexdigest()
        try:
            self._store.set(NONCES + digest, self._clock().isoformat(), "used", author=by, expected_version=0)
        except VersionConflict:
            raise Forged("The message came before.") from None


def sign(body: bytes, key: bytes) -> str:
    """Returns the signature of a message in hexadecimal digits."""
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def _is_same(wanted: str, given: str) -> bool:
    return hmac.compare_digest(wanted.encode(), given.removeprefix("sha256=").encode(errors="replace"))


def _read(body: bytes) -> dict[str, Any]:
    try:
        said = json.loads(body)
        found = {name: said[name] for name in _FIELDS}
        at = datetime.fromisoformat(found["at"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Forged(f"The message is not a decision with {', '.join(_FIELDS)}.") from error
    texts = all(isinstance(found[name], str) and found[name] for name in _FIELDS if name != "approve")
    if not texts or not isinstance(found["approve"], bool):
        raise Forged("A field of the message is empty, or of the wrong kind.")
    return found | {"at": at if at.tzinfo else at.replace(tzinfo=UTC)}

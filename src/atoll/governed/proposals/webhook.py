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

NONCE_PREFIX = "nonces/"
_MIN_KEY_BYTES, _MAX_BODY_BYTES = 16, 100_000
_FIELDS = ("proposal", "content_hash", "by", "approve", "reason", "nonce", "at")


class InvalidSignature(errors.AtollError):
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
        if len(key) < _MIN_KEY_BYTES:
            raise errors.SetupError(f"The key of the webhook has {len(key)} bytes: give at least {_MIN_KEY_BYTES}.")
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
        if len(body) > _MAX_BODY_BYTES or not _signatures_match(sign(body, self._key), signature):
            raise InvalidSignature("The signature of the message is wrong.")
        message = _parse_message(body)
        if abs(self._clock() - message["at"]) > self._tolerance:
            raise InvalidSignature("The message is too old, or its clock is wrong.")
        self._consume_nonce(message["nonce"], message["by"])
        return self._proposals.decide(
            message["proposal"],
            message["by"],
            approve=message["approve"],
            reason=message["reason"],
            content_hash=message["content_hash"],
        )

    def _consume_nonce(self, nonce: str, author: str) -> None:
        digest = hashlib.sha256(nonce.encode()).hexdigest()
        try:
            self._store.set(NONCE_PREFIX + digest, self._clock().isoformat(), "used", author=author, expected_version=0)
        except VersionConflict:
            raise InvalidSignature("The message came before.") from None


def sign(body: bytes, key: bytes) -> str:
    """Returns the signature of a message in hexadecimal digits."""
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def _signatures_match(expected: str, received: str) -> bool:
    return hmac.compare_digest(expected.encode(), received.removeprefix("sha256=").encode(errors="replace"))


def _parse_message(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
        message = {name: data[name] for name in _FIELDS}
        sent_at = datetime.fromisoformat(message["at"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidSignature(f"The message is not a decision with {', '.join(_FIELDS)}.") from error
    has_texts = all(isinstance(message[name], str) and message[name] for name in _FIELDS if name != "approve")
    if not has_texts or not isinstance(message["approve"], bool):
        raise InvalidSignature("A field of the message is empty, or of the wrong kind.")
    return message | {"at": sent_at if sent_at.tzinfo else sent_at.replace(tzinfo=UTC)}

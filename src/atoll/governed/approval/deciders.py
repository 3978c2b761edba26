"""Who decides on a proposal: a function that is asked at once, or somebody later."""

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from queue import Empty, Queue
from threading import Thread
from typing import Any, NamedTuple

from atoll import errors
from atoll.governed.approval.proposal import Proposal
from atoll.governed.approval.proposals import AlreadyDecided, Proposals, now
from atoll.governed.errors import VersionConflict
from atoll.governed.parameters import ParameterStore

# Looks at a proposal and says whether it may be carried out.
type ApprovalFunc = Callable[[Proposal], bool]

_DEFAULT_SECONDS = 60.0


class Decider(NamedTuple):
    """A function that decides for somebody.

    Attributes:
        name: For whom: it stands in the audit log, and is never the author.
        approve: What decides. One that raises or takes too long has rejected.
        seconds: How long it may take.
    """

    name: str
    approve: ApprovalFunc
    seconds: float = _DEFAULT_SECONDS


DEFER = "later"  # the proposal waits for the command line, the page or a signed message


def run_decider(
    proposals: Proposals, proposal: Proposal, decider: Decider | str | None, *, allow_auto_approval: bool = True
) -> Proposal:
    """Has a pending proposal decided; `LATER` leaves it pending, and without a decider it is rejected.

    Args:
        may_pass: Whether it may pass by rule at all: what takes the place of something approved may not.

    Raises:
        Decided: Somebody else was faster.
    """
    if allow_auto_approval and proposals.policy.auto_approve_read_only and proposals.policy.is_read_only(proposal):
        return proposals.auto_approve(proposal.id, "it adds words alone, and the policy lets those pass")
    if decider == DEFER:
        return proposal
    if not isinstance(decider, Decider):
        reason = "there is nobody who could approve it"
        return proposals.close(proposal.id, "rejected", "policy", reason)
    if refusal_reason := proposals.policy.get_refusal_reason(proposal, decider.name):
        return proposals.close(proposal.id, "rejected", "policy", refusal_reason)
    approve, reason = _call_decider(decider, proposal)
    return proposals.decide(
        proposal.id, decider.name, approve=approve, reason=reason, content_hash=proposal.content_hash
    )


def _call_decider(decider: Decider, proposal: Proposal) -> tuple[bool, str]:
    answers: Queue[object] = Queue()
    # A thread that never ends is left behind: a decision cannot be taken out of anybody.
    Thread(target=lambda: answers.put(errors.capture(lambda: decider.approve(proposal))), daemon=True).start()
    try:
        answer = answers.get(timeout=decider.seconds)
    except Empty:
        return False, f"{decider.name} did not answer within {decider.seconds:g} seconds"
    if isinstance(answer, errors.CaughtException):
        return False, f"{decider.name} failed: {answer}"
    if answer is True:
        return True, f"{decider.name} approves"
    return False, f"{decider.name} rejects" if answer is False else f"{decider.name} said neither yes nor no"


__all__ = ["DEFER", "ApprovalFunc", "AlreadyDecided", "Decider", "run_decider"]


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

"""Ways to decide: a function that decides at once, a later decision (`DEFER`), and a signed message."""

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from queue import Empty, Queue
from threading import Thread
from typing import Any, NamedTuple

from atoll import errors
from atoll.governed.approval.proposal import POLICY_AUTHOR, Proposal
from atoll.governed.approval.proposals import Proposals, now
from atoll.governed.errors import VersionConflict
from atoll.governed.parameters import ParameterStore

# Returns whether a proposal is approved.
type ApprovalFunc = Callable[[Proposal], bool]

_DEFAULT_SECONDS = 60.0


class Decider(NamedTuple):
    """Function that decides on proposals.

    Attributes:
        name: Name of the approver in the audit log; never the author of the proposal.
        approve: Decides. An exception or a timeout counts as a rejection.
        seconds: Time limit.
    """

    name: str
    approve: ApprovalFunc
    seconds: float = _DEFAULT_SECONDS


DEFER = "later"  # pending until the command line, the dashboard or a signed message decides


def run_decider(
    proposals: Proposals, proposal: Proposal, decider: Decider | str | None, *, allow_auto_approval: bool = True
) -> Proposal:
    """Asks the policy, then the decider, to decide on a pending proposal. `DEFER` leaves it pending; None rejects it.

    Args:
        allow_auto_approval: Whether the policy may approve it. False if it replaces something approved.

    Raises:
        AlreadyDecided: Another decision came first.
    """
    if allow_auto_approval and proposals.policy.auto_approve_read_only and proposals.policy.is_read_only(proposal):
        return proposals.auto_approve(proposal.id, "the skill has only text, and the policy approves such skills")
    if decider == DEFER:
        return proposal
    if not isinstance(decider, Decider):
        return proposals.close(proposal.id, "rejected", POLICY_AUTHOR, "no approver is configured")
    if refusal_reason := proposals.policy.get_refusal_reason(proposal, decider.name):
        return proposals.close(proposal.id, "rejected", POLICY_AUTHOR, refusal_reason)
    approve, reason = _call_decider(decider, proposal)
    return proposals.decide(
        proposal.id, decider.name, approve=approve, reason=reason, content_hash=proposal.content_hash
    )


def _call_decider(decider: Decider, proposal: Proposal) -> tuple[bool, str]:
    answers: Queue[object] = Queue()
    # A thread that hangs is left behind: Python cannot end it.
    Thread(target=lambda: answers.put(errors.capture(lambda: decider.approve(proposal))), daemon=True).start()
    try:
        answer = answers.get(timeout=decider.seconds)
    except Empty:
        return False, f"{decider.name} did not decide within {decider.seconds:g} seconds"
    if isinstance(answer, errors.CaughtException):
        return False, f"{decider.name} failed: {answer}"
    if answer is True:
        return True, f"{decider.name} approves"
    return False, f"{decider.name} rejects" if answer is False else f"{decider.name} returned neither True nor False"


NONCE_PREFIX = "nonces/"
_MIN_KEY_BYTES, _MAX_BODY_BYTES = 16, 100_000
_FIELDS = ("proposal", "content_hash", "by", "approve", "reason", "nonce", "at")


class InvalidSignature(errors.AtollError):
    """The signature is wrong, or the message is too old or was already used."""


class SignedDecisions:
    """Accepts decisions that are signed with a shared key: HMAC-SHA256 of the body, each nonce once.

    The body is JSON with `proposal`, `content_hash`, `by`, `approve`, `reason`, `nonce` and `at` (ISO 8601).

    Args:
        key: At least 16 bytes; never stored. Read it from an environment variable.
        tolerance: Maximum difference between the message's time and now.
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
            raise errors.SetupError(f"The webhook key has {len(key)} bytes. Use at least {_MIN_KEY_BYTES}.")
        self._proposals, self._store, self._key = proposals, store, key
        self._tolerance, self._clock = tolerance, clock

    def accept(self, body: bytes, signature: str) -> Proposal:
        """Records one decision and returns the proposal. An approved one is not applied yet.

        Args:
            body: The bytes as received.
            signature: Hexadecimal digits, with or without `sha256=`.

        Raises:
            InvalidSignature: The signature, the time or the nonce is wrong; nothing changed.
            AlreadyDecided: The message is valid, but too late, or its author may not decide.
        """
        if len(body) > _MAX_BODY_BYTES or not _signatures_match(sign(body, self._key), signature):
            raise InvalidSignature("The signature of the message is wrong. Check the key.")
        message = _parse_message(body)
        if abs(self._clock() - message["at"]) > self._tolerance:
            raise InvalidSignature("The message is too old, or the sender's clock is wrong.")
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
            raise InvalidSignature("The message was already used. Send a new nonce.") from None


def sign(body: bytes, key: bytes) -> str:
    """Returns the signature of a message as hexadecimal digits."""
    return hmac.new(key, body, hashlib.sha256).hexdigest()


def _signatures_match(expected: str, received: str) -> bool:
    return hmac.compare_digest(expected.encode(), received.removeprefix("sha256=").encode(errors="replace"))


def _parse_message(body: bytes) -> dict[str, Any]:
    try:
        data = json.loads(body)
        message = {name: data[name] for name in _FIELDS}
        sent_at = datetime.fromisoformat(message["at"])
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise InvalidSignature(f"The message is not a decision. It needs {', '.join(_FIELDS)}.") from error
    has_texts = all(isinstance(message[name], str) and message[name] for name in _FIELDS if name != "approve")
    if not has_texts or not isinstance(message["approve"], bool):
        raise InvalidSignature("A field of the message is empty or has the wrong type.")
    return message | {"at": sent_at if sent_at.tzinfo else sent_at.replace(tzinfo=UTC)}

"""Proposals that survive a restart: each is a parameter of the store, so every word about it is in the audit log."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from atoll import errors, identities, secret_scanner
from atoll.governed.approval.policy import POLICY_AUTHOR, Policy
from atoll.governed.approval.proposal import (
    RISKS,
    TYPES,
    Proposal,
    Review,
    Risk,
    Status,
    Type,
    from_json,
    to_canonical_json,
)
from atoll.governed.errors import ParameterNotFound, VersionConflict
from atoll.governed.parameters import ParameterStore

PREFIX = "proposals/"
_MAX_CHARS = 1_000_000

_CLOSED_STATUSES: tuple[Status, ...] = ("withdrawn", "superseded", "rejected")
_log = logging.getLogger(__name__)

type Clock = Callable[[], datetime]
type SecretScanner = Callable[[str], Sequence[secret_scanner.SecretMatch]]


class SecretFound(errors.AtollError):
    """What was proposed holds something that looks like a secret; nothing of it was written anywhere."""


class AlreadyDecided(errors.Conflict):
    """Somebody decided before, or time did."""


class ProposalExpired(AlreadyDecided):
    """Nobody decided in time, which is a rejection."""


def now() -> datetime:
    return datetime.now(UTC)


class Proposals:
    """Takes proposals in, has them decided, and carries each out once.

    Several processes may share the store: every step is a compare-and-set, so of two decisions one is a conflict.

    Args:
        store: Where they are kept.
        policy: What a decision takes.
        clock: What time it is.
        guard: Looks for secrets in what is proposed and said; `lambda text: []` looks for none.
    """

    def __init__(
        self,
        store: ParameterStore,
        policy: Policy | None = None,
        *,
        clock: Clock = now,
        scanner: SecretScanner = secret_scanner.find_secrets,
    ) -> None:
        self._store, self.policy, self._clock, self._scanner = store, policy or Policy(), clock, scanner

    def submit(
        self,
        proposal_type: Type,
        title: str,
        content: Mapping[str, Any],
        author: str,
        *,
        description: str = "",
        rationale: str = "",
        risk: Risk | None = None,
    ) -> Proposal:
        """Puts a proposal on the table and returns it, pending.

        Raises:
            SetupError: It has no title, no author, an unknown type, or its content is no JSON.
            SecretFound: Something in it looks like a secret.
        """
        if proposal_type not in TYPES:
            raise errors.SetupError(f"There is no proposal of type {proposal_type!r}: give one of {', '.join(TYPES)}.")
        if not title.strip() or not author.strip():
            raise errors.SetupError("A proposal needs a title and an author: say what it is and whose.")
        identities.normalize_name(author)
        if risk is not None and risk not in RISKS:
            raise errors.SetupError(f"There is no risk {risk!r:.40}: it is one of {', '.join(RISKS)}.")
        text = _validate_content(content)
        self._check_texts(title, description, rationale, text)
        created_at = self._clock()
        proposal = Proposal(
            f"p-{uuid.uuid4().hex[:12]}",
            proposal_type,
            title,
            content,
            author,
            created_at,
            created_at + self.policy.expires_after,
            description,
            rationale,
            risk or self.policy.get_risk(proposal_type),
        )
        self._store.set(
            PREFIX + proposal.id, proposal.to_json(), f"proposed: {title}", author=author, expected_version=0
        )
        return proposal

    def get(self, proposal_id: str) -> Proposal:
        """Returns a proposal as it stands; one whose time is over is expired, whoever looks.

        Raises:
            NotFound: There is none of that id.
        """
        return self._read(proposal_id)[0]

    def list(self, status: Status | None = None) -> Sequence[Proposal]:
        """Returns all proposals, or those of a status, oldest first."""
        proposals = []
        for key in self._store.list(PREFIX):
            try:
                proposals.append(self.get(key.removeprefix(PREFIX)))
            except errors.StoreFailed as error:
                _log.warning("%s", error)  # one that somebody spoilt hides no other
        return [
            proposal
            for proposal in sorted(proposals, key=lambda proposal: proposal.created_at)
            if status in (None, proposal.status)
        ]

    def edit(self, proposal_id: str, content: Mapping[str, Any], author: str, reason: str) -> Proposal:
        """Changes what is proposed; what was said of it before counts no longer, and it is the editor's too.

        Raises:
            NotFound: There is none of that id.
            Decided: It is not pending or approved any more.
            SecretFound: Something in it looks like a secret.
        """
        self._check_texts(_validate_content(content), reason)
        proposal, version = self._read_with_status(proposal_id, ("pending", "approved"))
        identities.normalize_name(author)
        editors = (*proposal.editors, author)
        edited = replace(proposal, content=content, editors=editors, reviews=(), status="pending")
        edited = replace(edited, expires_at=self._clock() + self.policy.expires_after)
        return self._write(edited, version, f"edited: {reason}", author)

    def decide(
        self, proposal_id: str, reviewer: str, *, approve: bool, reason: str, content_hash: str | None = None
    ) -> Proposal:
        """Takes one decision down: a rejection ends it, approvals count until there are enough.

        Args:
            content_hash: Of what the decider looked at; None: what is there now.

        Raises:
            NotFound: There is none of that id.
            SetupError: The reason or the name is empty.
            Decided: It is not pending any more, this person may not decide, or its content is another one by now.
        """
        if not reason.strip() or not reviewer.strip():
            raise errors.SetupError("A decision needs a reason and a name: say why, and who you are.")
        self._check_texts(reason)
        proposal, version = self._read_with_status(proposal_id, ("pending",))
        if refusal_reason := self.policy.get_refusal_reason(proposal, reviewer):
            raise AlreadyDecided(f"{reviewer} cannot decide on proposal {proposal_id}: {refusal_reason}.")
        if content_hash is not None and content_hash != proposal.content_hash:
            raise AlreadyDecided(f"Proposal {proposal_id} was edited since it was looked at: look again.")
        reviewed = proposal.with_review(Review(reviewer, approve, reason, self._clock(), proposal.content_hash))
        if not approve:
            reviewed = replace(reviewed, status="rejected")
        elif self.policy.has_enough_approvals(reviewed):
            reviewed = replace(reviewed, status="approved")
        verdict = "approved" if approve else "rejected"
        return self._write(reviewed, version, f"{verdict}: {reason}", reviewer)

    def close(self, proposal_id: str, status: Status, author: str, reason: str) -> Proposal:
        """Closes a proposal without a decision: it is withdrawn, superseded, or rejected by a rule.

        Raises:
            SetupError: The status closes nothing.
            Decided: It was closed before.
        """
        if status not in _CLOSED_STATUSES:
            raise errors.SetupError(f"A proposal is not closed as {status}: give one of {', '.join(_CLOSED_STATUSES)}.")
        self._check_texts(reason)
        proposal, version = self._read_with_status(proposal_id, ("pending", "approved"))
        return self._write(replace(proposal, status=status), version, f"{status}: {reason}", author)

    def auto_approve(self, proposal_id: str, reason: str) -> Proposal:
        """Approves by rule what needs nobody: words alone, where the policy says so.

        Raises:
            Decided: It is not pending, or it does need somebody.
        """
        proposal, version = self._read_with_status(proposal_id, ("pending",))
        reviewed = proposal.with_review(Review(POLICY_AUTHOR, True, reason, self._clock(), proposal.content_hash))
        if not self.policy.has_enough_approvals(reviewed):
            raise AlreadyDecided(f"Proposal {proposal_id} needs somebody who approves it.")
        return self._write(replace(reviewed, status="approved"), version, f"approved: {reason}", POLICY_AUTHOR)

    def apply(self, proposal_id: str, apply_change: Callable[[Proposal], str]) -> Proposal:
        """Carries an approved proposal out and says what it made.

        It is marked first, so that nobody edits it meanwhile; a crash in between leaves the mark, and it is carried
        out again: `carry_out` uses `Proposal.token` for what it sets, so that twice is once.

        Raises:
            Decided: It is not approved, or another process was faster.
        """
        proposal, version = self._read_with_status(proposal_id, ("approved", "applying"))
        if not self.policy.has_enough_approvals(proposal):
            raise AlreadyDecided(f"Proposal {proposal_id} has not been approved by enough for what it says now.")
        author = proposal.approvals[-1].by
        if proposal.status == "approved":
            proposal = self._write(replace(proposal, status="applying"), version, "is carried out", author)
        outcome = errors.capture(lambda: apply_change(proposal), reraise=(errors.StoreFailed,))
        has_failed = isinstance(outcome, errors.CaughtException)
        applied = replace(proposal, status="failed" if has_failed else "applied", outcome=str(outcome))
        _, version = self._read_with_status(proposal_id, ("applying",))
        return self._write(applied, version, f"{applied.status}: {applied.outcome or proposal.title}", author)

    def _read(self, proposal_id: str) -> tuple[Proposal, int]:
        try:
            value, version = self._store.get(PREFIX + proposal_id)
        except ParameterNotFound:
            raise errors.NotFound(f"There is no proposal {proposal_id}.") from None
        try:
            proposal = from_json(value)
        except ValueError as error:
            raise errors.StoreFailed(f"Proposal {proposal_id} cannot be read: {error}.") from error
        if proposal.status == "pending" and self._clock() >= proposal.expires_at:
            proposal = replace(proposal, status="expired")
        return proposal, version

    def _read_with_status(self, proposal_id: str, statuses: tuple[Status, ...]) -> tuple[Proposal, int]:
        proposal, version = self._read(proposal_id)
        if proposal.status == "expired":
            raise ProposalExpired(f"Proposal {proposal_id} is expired since {proposal.expires_at:%Y-%m-%d %H:%M} UTC.")
        if proposal.status not in statuses:
            raise AlreadyDecided(f"Proposal {proposal_id} is {proposal.status}, not {' or '.join(statuses)}.")
        return proposal, version

    def _write(self, proposal: Proposal, version: int, reason: str, author: str) -> Proposal:
        try:
            self._store.set(PREFIX + proposal.id, proposal.to_json(), reason, author=author, expected_version=version)
        except VersionConflict:
            raise AlreadyDecided(
                f"Somebody else changed proposal {proposal.id} at the same time: look again."
            ) from None
        return proposal

    def check_no_secrets(self, content: Mapping[str, Any]) -> None:
        """Refuses what could not be proposed for its secrets or its size.

        Raises:
            SetupError: It is too large, or no JSON.
            SecretFound: It holds something that looks like a secret.
        """
        self._check_texts(_validate_content(content))

    def _check_texts(self, *texts: str) -> None:
        for text in texts:
            if matches := self._scanner(text):
                kinds = ", ".join(dict.fromkeys(match.kind for match in matches))
                raise SecretFound(f"This looks like a secret ({kinds}): take it out, and name a variable instead.")


def _validate_content(content: Mapping[str, Any]) -> str:
    try:
        text = to_canonical_json(content)
    except ValueError as error:
        raise errors.SetupError(f"The proposal cannot be kept: {error}.") from None
    if len(text) > _MAX_CHARS:
        raise errors.SetupError(f"The proposal has {len(text):,} characters: give at most {_MAX_CHARS:,}.")
    return "\n".join(_collect_texts(content))


def _collect_texts(value: Any, name: str = "") -> list[str]:
    """Returns all texts of a content as they are: in JSON a line break is two letters, and a key may hide behind it.

    What a value is called stands before it, as in a file, so that a guard sees it; so does what a parameter is called.
    """
    match value:
        case str():
            return [value, *([f'{name}: "{value}"'] if name else [])]
        case Mapping():
            label = next(
                (candidate_label for key in ("key", "name") if isinstance(candidate_label := value.get(key), str)), ""
            )
            texts = [text for key, item in value.items() for text in (str(key), *_collect_texts(item, str(key)))]
            return texts + (_collect_texts(value["value"], label) if label and "value" in value else [])
        case list() | tuple():
            return [text for item in value for text in _collect_texts(item, name)]
        case _:
            return []

"""Proposals in the parameter store. Every change of a proposal is in the audit log."""

import logging
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from atoll import errors, identities, secret_scanner
from atoll.governed import principals
from atoll.governed.approval.proposal import (
    POLICY_AUTHOR,
    RISKS,
    TYPES,
    Policy,
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
from atoll.store.access import proposal_checks

PREFIX = "proposals/"
_MAX_CHARS = 1_000_000

_CLOSED_STATUSES: tuple[Status, ...] = ("withdrawn", "superseded", "rejected")
_log = logging.getLogger(__name__)

type Clock = Callable[[], datetime]
type SecretScanner = Callable[[str], Sequence[secret_scanner.SecretMatch]]


class SecretFound(errors.AtollError):
    """The content looks like it contains a secret; nothing was written."""


class AlreadyDecided(errors.Conflict):
    """The step is not allowed: the proposal is decided, was changed meanwhile, or this reviewer may not decide."""


class ProposalExpired(AlreadyDecided):
    """The proposal expired before a decision."""


def now() -> datetime:
    return datetime.now(UTC)


class Proposals:
    """Submits, decides and applies proposals. Each is applied once.

    Several processes may share the store. Every step is a compare-and-set, so the later of two decisions fails.

    Args:
        store: Holds the proposals.
        policy: Approval rules.
        scanner: Finds secrets in contents and reasons; `lambda text: []` turns the check off.
    """

    def __init__(
        self,
        store: ParameterStore,
        policy: Policy | None = None,
        *,
        clock: Clock = now,
        scanner: SecretScanner = secret_scanner.find_secrets,
    ) -> None:
        self._store, self.policy = store, policy or Policy()
        self._clock, self._scanner = clock, scanner

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
        evidence: Sequence[Mapping[str, Any]] = (),
    ) -> Proposal:
        """Submits a proposal and returns it with status pending.

        Raises:
            SetupError: The title or author is missing, the type is unknown, or the content is not JSON.
            SecretFound: The content looks like it contains a secret.
        """
        if proposal_type not in TYPES:
            raise errors.SetupError(f"Proposal type {proposal_type!r} is unknown. Use one of {', '.join(TYPES)}.")
        if not title.strip() or not author.strip():
            raise errors.SetupError("A proposal needs a title and an author. Pass both.")
        author = principals.get_author(self._store, author)
        identities.normalize_name(author)
        if risk is not None and risk not in RISKS:
            raise errors.SetupError(f"Risk {risk!r:.40} is unknown. Use one of {', '.join(RISKS)}.")
        text = _validate_content(content)
        self._check_texts(title, description, rationale, text, _validate_content({"evidence": list(evidence)}))
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
            base=self._read_base(content),
            evidence=tuple(evidence),
        )
        proposal = replace(proposal, quorum=self.policy.get_quorum(proposal))
        self._store.set(
            PREFIX + proposal.id, proposal.to_json(), f"proposed: {title}", author=author, expected_version=0
        )
        return proposal

    def get(self, proposal_id: str) -> Proposal:
        """Returns a proposal. One whose time is over has the status expired.

        Raises:
            NotFound: The proposal does not exist.
        """
        return self._read(proposal_id)[0]

    def list(self, status: Status | None = None) -> Sequence[Proposal]:
        """Returns all proposals, or those with a status, oldest first."""
        proposals = []
        for key in self._store.list(PREFIX):
            try:
                proposals.append(self.get(key.removeprefix(PREFIX)))
            except errors.StoreFailed as error:
                _log.warning("%s", error)  # an unreadable proposal does not hide the others
        return [
            proposal
            for proposal in sorted(proposals, key=lambda proposal: proposal.created_at)
            if status in (None, proposal.status)
        ]

    def edit(self, proposal_id: str, content: Mapping[str, Any], author: str, reason: str) -> Proposal:
        """Replaces the content. Earlier reviews become void, and the editor cannot approve the proposal.

        Raises:
            NotFound: The proposal does not exist.
            AlreadyDecided: The proposal is neither pending nor approved.
            SecretFound: The content looks like it contains a secret.
        """
        self._check_texts(_validate_content(content), reason)
        proposal, version = self._read_with_status(proposal_id, ("pending", "approved"))
        author = principals.get_author(self._store, author)
        identities.normalize_name(author)
        editors = (*proposal.editors, author)
        edited = replace(proposal, content=content, editors=editors, reviews=(), status="pending")
        edited = replace(edited, expires_at=self._clock() + self.policy.expires_after, base=self._read_base(content))
        return self._write(edited, version, f"edited: {reason}", author)

    def rebase(self, proposal_id: str, author: str, reason: str) -> Proposal:
        """Bases a proposal on the current versions of its keys. Earlier reviews become void, as by an edit.

        Raises:
            NotFound: The proposal does not exist.
            AlreadyDecided: The proposal is neither pending nor approved.
        """
        return self.edit(proposal_id, self.get(proposal_id).content, author, f"rebased: {reason}")

    def decide(
        self, proposal_id: str, reviewer: str, *, approve: bool, reason: str, content_hash: str | None = None
    ) -> Proposal:
        """Records one decision. One rejection rejects the proposal; a quorum of approvals approves it.

        Args:
            content_hash: Hash of the content that the reviewer read. An approval needs it.

        Raises:
            NotFound: The proposal does not exist.
            SetupError: The reason, the name or the hash is missing.
            AlreadyDecided: It is not pending, the reviewer may not decide, or the content has changed.
        """
        if not reason.strip() or not reviewer.strip():
            raise errors.SetupError("A decision needs a reason and a name. Pass both.")
        self._check_texts(reason)
        reviewer = principals.get_author(self._store, reviewer)
        if approve and content_hash is None:
            raise errors.SetupError("An approval needs the hash of the content that you read. Pass it, as in --hash.")
        proposal, version = self._read_with_status(proposal_id, ("pending",))
        if refusal_reason := self.policy.get_refusal_reason(proposal, reviewer):
            raise AlreadyDecided(f"{reviewer} cannot decide on proposal {proposal_id}: {refusal_reason}.")
        if content_hash is not None and content_hash != proposal.content_hash:
            raise AlreadyDecided(f"Proposal {proposal_id} was edited after you read it. Read it again.")
        if approve:
            self._check_evidence(proposal)
        reviewed = proposal.with_review(Review(reviewer, approve, reason, self._clock(), proposal.content_hash))
        if not approve:
            reviewed = replace(reviewed, status="rejected")
        elif self._has_enough_approvals(reviewed):
            reviewed = replace(reviewed, status="approved")
        verdict = "approved" if approve else "rejected"
        return self._write(reviewed, version, f"{verdict}: {reason}", reviewer)

    def close(self, proposal_id: str, status: Status, author: str, reason: str) -> Proposal:
        """Closes a proposal as withdrawn, superseded, or rejected by the policy.

        Raises:
            SetupError: The status does not close a proposal.
            AlreadyDecided: The proposal is already closed.
        """
        if status not in _CLOSED_STATUSES:
            raise errors.SetupError(f"A proposal cannot be closed as {status}. Use {', '.join(_CLOSED_STATUSES)}.")
        self._check_texts(reason)
        author = principals.get_author(self._store, author)
        proposal, version = self._read_with_status(proposal_id, ("pending", "approved"))
        return self._write(replace(proposal, status=status), version, f"{status}: {reason}", author)

    def auto_approve(self, proposal_id: str, reason: str) -> Proposal:
        """Approves a skill with text only, if the policy allows that.

        Raises:
            AlreadyDecided: The proposal is not pending, or needs an approver.
        """
        proposal, version = self._read_with_status(proposal_id, ("pending",))
        reviewed = proposal.with_review(Review(POLICY_AUTHOR, True, reason, self._clock(), proposal.content_hash))
        if not self._has_enough_approvals(reviewed):
            raise AlreadyDecided(f"Proposal {proposal_id} needs an approver.")
        return self._write(replace(reviewed, status="approved"), version, f"approved: {reason}", POLICY_AUTHOR)

    def apply(self, proposal_id: str, apply_change: Callable[[Proposal], str]) -> Proposal:
        """Applies an approved proposal and records the outcome.

        The status is set to applying first, so the content cannot change. After a crash the proposal is applied again;
        `apply_change` passes `Proposal.token` to the store, so that the second time has no effect.

        Raises:
            AlreadyDecided: The proposal is not approved, or another process applied it.
        """
        proposal, version = self._read_with_status(proposal_id, ("approved", "applying"))
        if not self._has_enough_approvals(proposal):
            raise AlreadyDecided(f"Proposal {proposal_id} has too few approvals for its current content.")
        author = self.get_applier(proposal)
        if proposal.status == "approved":
            proposal = self._write(replace(proposal, status="applying"), version, "applying", author)
        outcome = errors.capture(lambda: apply_change(proposal), reraise=(errors.StoreFailed,))
        has_failed = isinstance(outcome, errors.CaughtException)
        applied = replace(proposal, status="failed" if has_failed else "applied", outcome=str(outcome))
        _, version = self._read_with_status(proposal_id, ("applying",))
        return self._write(applied, version, f"{applied.status}: {applied.outcome or proposal.title}", author)

    def get_applier(self, proposal: Proposal) -> str:
        """Returns the author of the changes of a proposal: its last approver, or the principal who applies it."""
        approver = proposal.approvals[-1].by
        is_single_user = principals.get_control(self._store).is_single_user
        return approver if is_single_user else principals.get_author(self._store, "")

    def get_quorum(self, proposal: Proposal) -> int:
        """Returns the number of approvals needed: the highest of the proposal, the policy and the store's policy."""
        stored = proposal_checks.get_quorum(principals.get_control(self._store), proposal.to_json())
        return max(stored, self.policy.get_quorum(proposal))

    def _has_enough_approvals(self, proposal: Proposal) -> bool:
        if not self.policy.has_enough_approvals(proposal):
            return False
        if any(review.by == POLICY_AUTHOR for review in proposal.approvals):
            return True
        return len({identities.normalize_name(review.by) for review in proposal.approvals}) >= self.get_quorum(proposal)

    def _check_evidence(self, proposal: Proposal) -> None:
        """Checks that the keys have not changed since the proposal, and the shadow runs of its values.

        Raises:
            AlreadyDecided: A key has changed, or its shadow run rejected the value or is missing.
        """
        for key, version in self._read_base(proposal.content).items():
            if version != proposal.base.get(key, version):
                raise AlreadyDecided(
                    f"Proposal {proposal.id} is based on version {proposal.base[key]} of {key}, which is at version "
                    f"{version} now. Rebase it with 'atoll proposals rebase {proposal.id}'."
                )
        control = principals.get_control(self._store)
        for key, value in proposal.changes:
            verdict, reason = find_shadow_verdict(self._store, key, value)
            if verdict == "reject":
                raise AlreadyDecided(f"A shadow run rejected this value of {key}: {reason}. Reject the proposal.")
            if verdict != "promote" and control.get_policy(key).needs("shadow"):
                raise AlreadyDecided(
                    f"{key} needs a shadow run that promotes the value before an approval. Run 'atoll rollout shadow'."
                )

    def _read_base(self, content: Mapping[str, Any]) -> Mapping[str, int]:
        """Returns the current versions of the parameters that a content sets."""
        base: dict[str, int] = {}
        for key, _ in proposal_checks.iter_changes(content):
            try:
                base[key] = self._store.get(key).version
            except errors.NotFound:
                base[key] = 0
        return base

    def _read(self, proposal_id: str) -> tuple[Proposal, int]:
        try:
            value, version = self._store.get(PREFIX + proposal_id)
        except ParameterNotFound:
            raise errors.NotFound(f"Proposal {proposal_id} not found. 'atoll proposals list' shows all.") from None
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
            raise ProposalExpired(f"Proposal {proposal_id} expired at {proposal.expires_at:%Y-%m-%d %H:%M} UTC.")
        if proposal.status not in statuses:
            raise AlreadyDecided(f"Proposal {proposal_id} is {proposal.status}, not {' or '.join(statuses)}.")
        return proposal, version

    def _write(self, proposal: Proposal, version: int, reason: str, author: str) -> Proposal:
        try:
            self._store.set(PREFIX + proposal.id, proposal.to_json(), reason, author=author, expected_version=version)
        except VersionConflict:
            raise AlreadyDecided(f"Proposal {proposal.id} was changed at the same time. Read it again.") from None
        return proposal

    def check_no_secrets(self, content: Mapping[str, Any]) -> None:
        """Checks the size of a content and scans it for secrets.

        Raises:
            SetupError: The content is too large or not JSON.
            SecretFound: The content looks like it contains a secret.
        """
        self._check_texts(_validate_content(content))

    def _check_texts(self, *texts: str) -> None:
        for text in texts:
            if matches := self._scanner(text):
                kinds = ", ".join(dict.fromkeys(match.kind for match in matches))
                raise SecretFound(f"This looks like a secret ({kinds}). Use an environment variable instead.")


def find_shadow_verdict(store: ParameterStore, key: str, value: Any) -> tuple[str, str]:
    """Returns verdict and reason of the newest shadow run if it was for this value of a key; else empty texts."""
    try:
        result = store.get(f"shadow/{key}").value
    except errors.NotFound:
        return "", ""
    if not isinstance(result, Mapping) or result.get("value") != value:
        return "", ""
    return str(result.get("verdict")), str(result.get("reason"))


def _validate_content(content: Mapping[str, Any]) -> str:
    try:
        text = to_canonical_json(content)
    except ValueError as error:
        raise errors.SetupError(f"The proposal cannot be saved: {error}.") from None
    if len(text) > _MAX_CHARS:
        raise errors.SetupError(f"The proposal has {len(text):,} characters. Use at most {_MAX_CHARS:,}.")
    return "\n".join(_collect_texts(content))


def _collect_texts(value: Any, name: str = "") -> list[str]:
    """Returns all strings of a content unescaped, since JSON escapes can hide a secret from the scanner.

    Each value is also listed as `name: "value"`, as in a configuration file, so that the scanner sees its name.
    """
    match value:
        case str():
            return [value, *([f'{name}: "{value}"'] if name else [])]
        case Mapping():
            label = next((text for key in ("key", "name") if isinstance(text := value.get(key), str)), "")
            texts = [text for key, item in value.items() for text in (str(key), *_collect_texts(item, str(key)))]
            return texts + (_collect_texts(value["value"], label) if label and "value" in value else [])
        case list() | tuple():
            return [text for item in value for text in _collect_texts(item, name)]
        case _:
            return []

"""ParameterEvolver: proposes values from evidence and applies approved ones."""

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from atoll import errors
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.parameters.store import ParameterStore
from atoll.governed.rollout.proposers import Proposer, Suggestion


class HasProposal(Protocol):
    """Proposal to set a parameter."""

    @property
    def id(self) -> str: ...

    @property
    def key(self) -> str: ...

    @property
    def value(self) -> Any: ...

    @property
    def author(self) -> str: ...

    @property
    def expected_version(self) -> int | None:
        """Version from which the value was computed; any other version is a conflict. None: any version."""

    @property
    def content_hash(self) -> str:
        """Hash of the reviewed content; changes with every edit."""


class HasApproval(Protocol):
    """Decision about a proposal."""

    @property
    def proposal_id(self) -> str: ...

    @property
    def content_hash(self) -> str: ...

    @property
    def is_approved(self) -> bool: ...

    @property
    def by(self) -> str: ...

    @property
    def reason(self) -> str: ...


@dataclass(frozen=True, slots=True)
class ParameterProposal:
    """Proposal to set one parameter."""

    id: str
    key: str
    value: Any
    author: str
    expected_version: int | None = None

    @property
    def content_hash(self) -> str:
        try:
            text = json.dumps([self.key, self.value, self.expected_version], sort_keys=True, allow_nan=False)
        except (TypeError, ValueError) as error:
            raise errors.SetupError(f"The value proposed for {self.key} is not valid JSON: {error}.") from error
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Approval:
    """Decision about a proposal, bound to its content."""

    proposal_id: str
    content_hash: str
    is_approved: bool
    by: str
    reason: str

    @classmethod
    def for_proposal(cls, proposal: HasProposal, *, is_approved: bool, approver: str, reason: str) -> "Approval":
        """Returns a decision about the current content of a proposal."""
        return cls(proposal.id, proposal.content_hash, is_approved, approver, reason)


def get_refusal_reason(proposal: HasProposal, approval: HasApproval) -> str:
    """Returns why an approval does not allow a proposal; empty if it does."""
    if approval.proposal_id != proposal.id:
        return f"the approval is for proposal {approval.proposal_id}"
    if approval.content_hash != proposal.content_hash:
        return "the proposal was edited after the approval"
    if not approval.by.strip():
        return "the approval has no approver"
    if approval.by == proposal.author:
        return f"{approval.by} is the author and cannot approve it"
    return "" if approval.is_approved else f"{approval.by} rejected it: {approval.reason}"


type AuditLog = Callable[[str], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """Result of applying a proposal.

    Attributes:
        version: New version; None if nothing changed.
        refusal: Reason why nothing changed.
    """

    version: int | None
    refusal: str = ""


class ParameterEvolver:
    """Proposes values and applies approved proposals. A proposal takes effect only through `apply`.

    Args:
        store: Holds the parameters.
        proposer: Suggests values.
        name: Author of the proposals.
        audit_log: Called with every decision, approved or not. None uses a logger; auditing cannot be turned off.
    """

    def __init__(
        self, store: ParameterStore, proposer: Proposer, *, name: str = "evolver", audit_log: AuditLog | None = None
    ) -> None:
        for label, dependency in (("store", store), ("proposer", proposer)):
            if dependency is None:
                raise errors.SetupError(f"ParameterEvolver needs a {label}.")
        self._store, self._proposer, self.name = store, proposer, name
        self._write_audit: AuditLog = audit_log or _log.info

    def propose(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        """Returns the suggested value and its confidence; changes nothing.

        Raises:
            SetupError: The evidence is not sufficient for the proposer.
        """
        value, confidence = self._proposer(key, evidence)
        return Suggestion(value, min(max(float(confidence), 0.0), 1.0))

    def make_proposal(self, key: str, value: Any, *, proposal_id: str) -> ParameterProposal:
        """Returns a proposal to set a key, based on its current version."""
        try:
            version = self._store.get(key).version
        except errors.NotFound:
            version = 0
        return ParameterProposal(proposal_id, key, value, self.name, version)

    def apply(self, proposal: HasProposal, approval: HasApproval) -> ApplyResult:
        """Sets the parameter if the approval is valid. A rejection changes nothing.

        The proposer becomes the author of the version, the reason comes from the approval. Applying a proposal again
        changes nothing and returns its version.

        Raises:
            ReasonRequired: The approval has no reason.
            VersionConflict: The parameter has changed since the proposal.
            ParameterLocked: The parameter is locked.
        """
        reason = get_refusal_reason(proposal, approval)
        if reason:
            self._write_audit(f"{proposal.key}: proposal {proposal.id} of {proposal.author} was not applied: {reason}")
            return ApplyResult(None, reason)
        version = self._store.set(
            proposal.key,
            proposal.value,
            approval.reason,
            author=proposal.author,
            expected_version=proposal.expected_version,
            token=f"proposal {proposal.id} {proposal.content_hash}",
        )
        summary = f"proposal {proposal.id} of {proposal.author}, approved by {approval.by}, is version {version}"
        self._write_audit(f"{proposal.key}: {summary}: {approval.reason}")
        return ApplyResult(version)

    def decide(self, key: str, value: Any, approved: bool, reason: str, *, approver: str) -> ApplyResult:
        """Applies or rejects a value in one call, without stored proposals."""
        proposal = self.make_proposal(key, value, proposal_id=f"{key} by {approver}")
        return self.apply(
            proposal, Approval.for_proposal(proposal, is_approved=approved, approver=approver, reason=reason)
        )

"""The evolver of parameters: evidence in, proposals out; approvals in, versions out."""

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
    """A change that waits for approval, or has it."""

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
        """The version that the value was computed from: on any other it is not applied. None: on whatever there is."""

    @property
    def content_hash(self) -> str:
        """Of everything that was reviewed: an edit makes it another one."""


class HasApproval(Protocol):
    """What somebody decided about a proposal."""

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
    """A proposal to set one parameter."""

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
            raise errors.SetupError(f"The value proposed for {self.key} is no plain JSON: {error}.") from error
        return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Approval:
    """A decision about a proposal, bound to its content."""

    proposal_id: str
    content_hash: str
    is_approved: bool
    by: str
    reason: str

    @classmethod
    def for_proposal(cls, proposal: HasProposal, *, is_approved: bool, approver: str, reason: str) -> "Approval":
        """Decides about a proposal as it is now."""
        return cls(proposal.id, proposal.content_hash, is_approved, approver, reason)


def get_refusal_reason(proposal: HasProposal, approval: HasApproval) -> str:
    """Returns why an approval does not carry a proposal; empty if it does."""
    if approval.proposal_id != proposal.id:
        return f"the approval is about {approval.proposal_id}"
    if approval.content_hash != proposal.content_hash:
        return "the proposal was changed after it was approved"
    if not approval.by.strip():
        return "nobody approved it"
    if approval.by == proposal.author:
        return f"{approval.by} proposed it and cannot approve it"
    return "" if approval.is_approved else f"{approval.by} rejected it: {approval.reason}"


type AuditLog = Callable[[str], None]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ApplyResult:
    """What became of a proposal.

    Attributes:
        version: The version that it made; None where nothing changed.
        refusal: Why nothing changed.
    """

    version: int | None
    refusal: str = ""


class ParameterEvolver:
    """Proposes values and applies what was approved; from a proposal to its application there is no other way.

    Args:
        store: Where parameters live. Proposing only reads it, if at all.
        proposer: Suggests values.
        name: The author of its proposals.
        audit_log: Told of every decision that comes here, approved or not. None keeps the default, a logger: what
            changes parameters cannot be silenced.
    """

    def __init__(
        self, store: ParameterStore, proposer: Proposer, *, name: str = "evolver", audit_log: AuditLog | None = None
    ) -> None:
        for label, dependency in (("store", store), ("proposer", proposer)):
            if dependency is None:
                raise errors.SetupError(f"A parameter evolver needs a {label}: give one.")
        self._store, self._proposer, self.name = store, proposer, name
        self._write_audit: AuditLog = audit_log or _log.info

    def propose(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        """Returns the proposer's value for a parameter and its confidence; changes nothing.

        Raises:
            SetupError: The proposer cannot tell from this evidence.
        """
        value, confidence = self._proposer(key, evidence)
        return Suggestion(value, min(max(float(confidence), 0.0), 1.0))

    def make_proposal(self, key: str, value: Any, *, proposal_id: str) -> ParameterProposal:
        """Returns a proposal to set a key, based on the version that it has now."""
        try:
            version = self._store.get(key).version
        except errors.NotFound:
            version = 0
        return ParameterProposal(proposal_id, key, value, self.name, version)

    def apply(self, proposal: HasProposal, approval: HasApproval) -> ApplyResult:
        """Sets the parameter if the approval carries the proposal; a rejection leaves the store as it is.

        The version says who proposed it, and its reason is that of the approval. The same proposal again changes
        nothing and returns the version that it made.

        Raises:
            ReasonRequired: The approval gives no reason.
            VersionConflict: The parameter has moved on since the proposal was made.
            ParameterLocked: It is locked.
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
        """Applies or rejects a value in one call, for those who keep no proposals."""
        proposal = self.make_proposal(key, value, proposal_id=f"{key} by {approver}")
        return self.apply(
            proposal, Approval.for_proposal(proposal, is_approved=approved, approver=approver, reason=reason)
        )

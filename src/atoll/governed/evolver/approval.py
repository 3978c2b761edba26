"""The seam between who proposes a change, who approves it and who applies it.

`Proposed` and `Approved` say what the evolver needs; any record of proposals and any approval that has these members
fits. `Change` and `Approval` are the plain ones.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Protocol

from atoll import errors


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

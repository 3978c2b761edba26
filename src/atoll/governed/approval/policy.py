"""Approval policy: who may decide, and how many approvals a proposal needs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from atoll import errors
from atoll.governed.approval.proposal import RISKS, Proposal, Risk, Type
from atoll.identities import normalize_name

POLICY_AUTHOR = "policy"  # author of automatic decisions

_RISK_BY_TYPE: Mapping[Type, Risk] = {
    "new_skill": "low",
    "optimize": "medium",
    "new_tool": "high",
    "self_adjust": "high",
}
_DEFAULT_QUORUM: Mapping[Risk, int] = {"low": 1, "medium": 1, "high": 1}


@dataclass(frozen=True, slots=True)
class Policy:
    """Approval rules.

    Attributes:
        quorum: Number of different approvers needed, by risk.
        approvers: Names that may decide; empty: everyone but the author.
        expires_after: Time until an undecided proposal expires.
        auto_approve_read_only: Whether the policy approves skills that have only text.

    Raises:
        SetupError: A quorum is below 1 or above the number of approvers, or the time is not positive.
    """

    quorum: Mapping[Risk, int] = field(default_factory=lambda: _DEFAULT_QUORUM)
    approvers: tuple[str, ...] = ()
    expires_after: timedelta = timedelta(days=7)
    auto_approve_read_only: bool = False

    def __post_init__(self) -> None:
        for risk in RISKS:
            if self.quorum.get(risk, 1) < 1:
                raise errors.SetupError(f"The quorum for {risk} risk is {self.quorum[risk]}. Use 1 or more.")
            if self.approvers and self.quorum.get(risk, 1) > len(set(map(normalize_name, self.approvers))):
                raise errors.SetupError(f"The quorum for {risk} risk is above the number of approvers. Add some.")
        if self.expires_after <= timedelta(0):
            raise errors.SetupError(f"expires_after={self.expires_after}: use a positive time.")

    def get_risk(self, proposal_type: Type) -> Risk:
        return _RISK_BY_TYPE[proposal_type]

    def get_quorum(self, proposal: Proposal) -> int:
        return self.quorum.get(proposal.risk, 1)

    def is_read_only(self, proposal: Proposal) -> bool:
        """Returns whether it is a skill with text only: no scripts, no tools, no conditions in its steps."""
        content = proposal.content
        steps = content.get("steps") or ()
        has_actions = any(not isinstance(step, Mapping) or set(step) - {"order", "description"} for step in steps)
        return proposal.type == "new_skill" and not (
            has_actions or content.get("scripts") or content.get("required_tools")
        )

    def has_enough_approvals(self, proposal: Proposal) -> bool:
        """Returns whether the content has enough approvals. That of the policy counts only for text-only skills."""
        if any(review.by == POLICY_AUTHOR for review in proposal.approvals):
            return self.auto_approve_read_only and self.is_read_only(proposal)
        return len({normalize_name(review.by) for review in proposal.approvals}) >= self.get_quorum(proposal)

    def get_refusal_reason(self, proposal: Proposal, reviewer: str) -> str | None:
        """Returns why a reviewer may not decide on a proposal; None if they may."""
        if normalize_name(reviewer) == POLICY_AUTHOR:
            return f"the name {POLICY_AUTHOR} is reserved"
        if normalize_name(reviewer) in map(normalize_name, (proposal.author, *proposal.editors)):
            return f"{reviewer} wrote it, and authors cannot approve their own proposals"
        if self.approvers and normalize_name(reviewer) not in map(normalize_name, self.approvers):
            return f"{reviewer} is not one of the approvers ({', '.join(self.approvers)})"
        if normalize_name(reviewer) in (normalize_name(review.by) for review in proposal.reviews):
            return f"{reviewer} has already decided"
        return None

"""Who must agree before something changes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

from atoll import errors
from atoll.governed.approval.proposal import RISKS, Proposal, Risk, Type
from atoll.identities import normalize_name

POLICY_AUTHOR = "policy"  # by whom a rule decides

_RISK_BY_TYPE: Mapping[Type, Risk] = {
    "new_skill": "low",
    "optimize": "medium",
    "new_tool": "high",
    "self_adjust": "high",
}
_DEFAULT_QUORUM: Mapping[Risk, int] = {"low": 1, "medium": 1, "high": 1}


@dataclass(frozen=True, slots=True)
class Policy:
    """What a decision takes.

    Attributes:
        quorum: How many different people must approve, by risk.
        approvers: Who may decide; empty: anybody but the author.
        expires_after: How long a proposal waits.
        auto_approve_read_only: Whether a skill that is words alone needs nobody.

    Raises:
        SetupError: A quorum is below 1, or nobody could ever approve.
    """

    quorum: Mapping[Risk, int] = field(default_factory=lambda: _DEFAULT_QUORUM)
    approvers: tuple[str, ...] = ()
    expires_after: timedelta = timedelta(days=7)
    auto_approve_read_only: bool = False

    def __post_init__(self) -> None:
        for risk in RISKS:
            if self.quorum.get(risk, 1) < 1:
                raise errors.SetupError(f"The quorum for {risk} risk is {self.quorum[risk]}: give 1 or more.")
            if self.approvers and self.quorum.get(risk, 1) > len(set(map(normalize_name, self.approvers))):
                raise errors.SetupError(f"The quorum for {risk} risk is larger than the number of approvers.")
        if self.expires_after <= timedelta(0):
            raise errors.SetupError("Proposals expire at once: give expires_after some time.")

    def get_risk(self, proposal_type: Type) -> Risk:
        return _RISK_BY_TYPE[proposal_type]

    def get_quorum(self, proposal: Proposal) -> int:
        """Returns how many must approve."""
        return self.quorum.get(proposal.risk, 1)

    def is_read_only(self, proposal: Proposal) -> bool:
        """Says whether it only adds words: a skill with scripts, or with tools in any of its steps, is more."""
        content = proposal.content
        steps = content.get("steps") or ()
        has_actions = any(not isinstance(step, Mapping) or set(step) - {"order", "description"} for step in steps)
        return proposal.type == "new_skill" and not (
            has_actions or content.get("scripts") or content.get("required_tools")
        )

    def has_enough_approvals(self, proposal: Proposal) -> bool:
        """Says whether enough have approved the content as it is, or nobody needs to."""
        by_rule = any(review.by == POLICY_AUTHOR for review in proposal.approvals)
        if by_rule:
            return self.auto_approve_read_only and self.is_read_only(proposal)
        return len({normalize_name(review.by) for review in proposal.approvals}) >= self.get_quorum(proposal)

    def get_refusal_reason(self, proposal: Proposal, reviewer: str) -> str | None:
        """Says why somebody may not decide on a proposal; None: they may."""
        if normalize_name(reviewer) == POLICY_AUTHOR:
            return f"{POLICY_AUTHOR} is nobody's name"
        if normalize_name(reviewer) in map(normalize_name, (proposal.author, *proposal.editors)):
            return f"{reviewer} wrote it, and nobody decides on a change of their own"
        if self.approvers and normalize_name(reviewer) not in map(normalize_name, self.approvers):
            return f"{reviewer} is none of its approvers ({', '.join(self.approvers)})"
        if normalize_name(reviewer) in (normalize_name(review.by) for review in proposal.reviews):
            return f"{reviewer} has decided already"
        return None

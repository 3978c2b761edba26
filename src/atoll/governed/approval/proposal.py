"""Proposal: a change with its reviews, bound to a content hash. Policy: who decides, and the number of approvals."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from atoll import errors
from atoll.identities import normalize_name
from atoll.store.access import proposal_checks

type Type = Literal["new_tool", "new_skill", "optimize", "self_adjust"]
type Status = Literal[
    "pending", "approved", "applying", "rejected", "applied", "expired", "failed", "superseded", "withdrawn"
]
type Risk = Literal["low", "medium", "high"]

TYPES: tuple[Type, ...] = ("new_tool", "new_skill", "optimize", "self_adjust")
STATUSES: tuple[Status, ...] = (
    "pending",
    "approved",
    "applying",
    "rejected",
    "applied",
    "expired",
    "failed",
    "superseded",
    "withdrawn",
)
_LATER_FIELDS = ("editors", "quorum", "base", "evidence")  # missing in proposals of older versions
RISKS: tuple[Risk, ...] = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Review:
    """Decision of one reviewer or of the policy.

    Attributes:
        content_hash: Hash of the reviewed content. The review counts only for this content.
    """

    by: str
    is_approval: bool
    reason: str
    at: datetime
    content_hash: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """Proposed change and its decisions.

    Attributes:
        content: The change as JSON.
        author: Never an approver of this proposal.
        editors: Users who edited it; never approvers either.
        expires_at: An undecided proposal expires then.
        reviews: Reviews of the current content.
        outcome: Result of applying it, or the reason why that failed.
        quorum: Approvals that it needs, by the policy of the process that submitted it.
        base: Versions of the keys on which it is based; 0: the key did not exist.
        evidence: Observations that support it, as JSON data, for approvers.
    """

    id: str
    type: Type
    title: str
    content: Mapping[str, Any]
    author: str
    created_at: datetime
    expires_at: datetime
    description: str = ""
    rationale: str = ""
    risk: Risk = "medium"
    status: Status = "pending"
    reviews: tuple[Review, ...] = field(default=())
    outcome: str = ""
    editors: tuple[str, ...] = ()
    quorum: int = 1
    base: Mapping[str, int] = field(default_factory=dict)
    evidence: tuple[Mapping[str, Any], ...] = ()

    @property
    def content_hash(self) -> str:
        """Hash of type and content; approvals are bound to it."""
        return hashlib.sha256(to_canonical_json([self.type, self.content]).encode()).hexdigest()

    @property
    def token(self) -> str:
        """Token of the versions that the proposal sets. Applying it twice sets them once."""
        return f"{self.id}/{self.content_hash[:16]}"

    @property
    def approvals(self) -> tuple[Review, ...]:
        """Approvals of the current content."""
        return tuple(
            review for review in self.reviews if review.is_approval and review.content_hash == self.content_hash
        )

    @property
    def changes(self) -> Sequence[proposal_checks.KeyValue]:
        """Parameters that the proposal changes, and their proposed values."""
        return list(proposal_checks.iter_changes(self.content))

    @property
    def key(self) -> str:
        """First parameter that the proposal changes; empty: none."""
        return self.changes[0].key if self.changes else str(self.content.get("key", ""))

    @property
    def value(self) -> Any:
        """Proposed value of the first parameter."""
        return self.changes[0].value if self.changes else None

    @property
    def expected_version(self) -> int | None:
        """Version on which the change of one parameter is based; None: any, or a bundle."""
        return self.content.get("expected_version")

    def with_review(self, review: Review) -> "Proposal":
        return replace(self, reviews=(*self.reviews, review))

    def to_json(self) -> dict[str, Any]:
        """Returns JSON data for `from_json`."""
        data = {**asdict(self), "content_hash": self.content_hash}
        data["reviews"] = [{**review, "at": review["at"].isoformat()} for review in data["reviews"]]
        data |= {"editors": list(self.editors), "evidence": list(self.evidence)}
        return data | {name: data[name].isoformat() for name in ("created_at", "expires_at")}


def from_json(data: Mapping[str, Any]) -> Proposal:
    """Parses the result of `Proposal.to_json`.

    Raises:
        ValueError: The data is not a proposal, or the content does not match its hash.
    """
    try:
        values = {name: data[name] for name in Proposal.__slots__ if name not in _LATER_FIELDS}
        reviews = tuple(Review(**{**review, "at": _parse_time(review["at"])}) for review in values["reviews"])
        times = {name: _parse_time(values[name]) for name in ("created_at", "expires_at")}
        later = {
            "editors": tuple(data.get("editors", ())),
            "quorum": data.get("quorum", 1),
            "base": data.get("base", {}),
            "evidence": tuple(data.get("evidence", ())),
        }
        proposal = Proposal(**{**values, **times, "reviews": reviews, **later})
        computed_hash = proposal.content_hash
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"it is not a proposal: {error!r}") from error
    if computed_hash != data.get("content_hash"):
        raise ValueError(f"the content of proposal {proposal.id} does not match its hash")
    return proposal


def to_canonical_json(value: Any) -> str:
    """Returns JSON with sorted keys and without blanks.

    Raises:
        ValueError: The value is not JSON.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"the content is not valid JSON: {error}") from error


def _parse_time(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)


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
    """Approval rules of one process. The policy of the store (`store.access.policy`) applies too.

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

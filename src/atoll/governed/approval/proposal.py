"""What somebody wants to change, and what was said of it: plain data, bound to its content."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Literal

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
RISKS: tuple[Risk, ...] = ("low", "medium", "high")


@dataclass(frozen=True, slots=True)
class Review:
    """What one person, or one rule, said of a proposal.

    Attributes:
        content_hash: Of what was looked at: it counts for that content and no other.
    """

    by: str
    is_approval: bool
    reason: str
    at: datetime
    content_hash: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that waits for a decision, or has had one.

    Attributes:
        type: What kind of change.
        content: All that would be applied; JSON.
        author: Who wants it; never the one who approves it.
        editors: Who changed it on the way; none of them approves it either.
        expires_at: Nobody decided until then: it is off the table.
        reviews: What was said of this content so far.
        outcome: What applying it made, or why it failed.
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

    @property
    def content_hash(self) -> str:
        """What an approval is bound to: the kind of change and all that would be applied."""
        return hashlib.sha256(to_canonical_json([self.type, self.content]).encode()).hexdigest()

    @property
    def token(self) -> str:
        """What it sets bears this: the same proposal with the same content sets it once."""
        return f"{self.id}/{self.content_hash[:16]}"

    @property
    def approvals(self) -> tuple[Review, ...]:
        """Those that count for the content as it is now."""
        return tuple(
            review for review in self.reviews if review.is_approval and review.content_hash == self.content_hash
        )

    @property
    def key(self) -> str:
        """Which parameter it would change; empty: none."""
        return str(self.content.get("key", ""))

    @property
    def value(self) -> Any:
        """What that parameter would be."""
        return self.content.get("value")

    @property
    def expected_version(self) -> int | None:
        """The version that the change was worked out on; None: any."""
        return self.content.get("expected_version")

    def with_review(self, review: Review) -> "Proposal":
        return replace(self, reviews=(*self.reviews, review))

    def to_json(self) -> dict[str, Any]:
        """Returns plain data that `from_json` reads back."""
        data = {**asdict(self), "content_hash": self.content_hash}
        data["reviews"] = [{**review, "at": review["at"].isoformat()} for review in data["reviews"]]
        data["editors"] = list(self.editors)
        return data | {name: data[name].isoformat() for name in ("created_at", "expires_at")}


def from_json(data: Mapping[str, Any]) -> Proposal:
    """Reads what `Proposal.to_json` wrote.

    Raises:
        ValueError: It is something else, or its content is not the one that its hash names.
    """
    try:
        values = {name: data[name] for name in Proposal.__slots__ if name != "editors"}
        reviews = tuple(Review(**{**review, "at": _parse_time(review["at"])}) for review in values["reviews"])
        times = {name: _parse_time(values[name]) for name in ("created_at", "expires_at")}
        proposal = Proposal(**{**values, **times, "reviews": reviews, "editors": tuple(data.get("editors", ()))})
        computed_hash = proposal.content_hash
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"this is no proposal: {error!r}") from error
    if computed_hash != data.get("content_hash"):
        raise ValueError(f"the content of proposal {proposal.id} is not the one that its hash names")
    return proposal


def to_canonical_json(value: Any) -> str:
    """Returns JSON that is the same for the same data: sorted, no blanks.

    Raises:
        ValueError: It is no JSON.
    """
    try:
        return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(f"the content is no JSON: {error}") from error


def _parse_time(text: str) -> datetime:
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)

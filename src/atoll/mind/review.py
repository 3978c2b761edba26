"""Reviews of worldlines and their approvals.

An approval names the hash of the approved content. A later edit makes it invalid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from atoll import candidate, errors, gate, llm
from atoll.mind.worldline import Worldline


@dataclass(frozen=True, slots=True)
class Approval:
    """Record of a review, as plain data.

    Attributes:
        worldline_id: The reviewed worldline.
        digest: Hash of its content at that time.
        is_approved: The decision.
        reason: Why.
        by: The reviewer.
    """

    worldline_id: str
    digest: str
    is_approved: bool
    reason: str
    by: str

    def covers(self, worldline_id: str, content: str) -> bool:
        """Returns whether it approves exactly this content."""
        return self.is_approved and self.worldline_id == worldline_id and self.digest == candidate.content_hash(content)


@dataclass(eq=False)
class ReviewAgent:
    """Reviews worldlines by rules or with an LLM, and records each decision.

    Attributes:
        rule: Gate that decides on a proposal. By default, evaluated candidates are accepted.
        model: LLM that writes critiques, if any.
        records: All decisions, in order.
    """

    rule: gate.Gate | None = None
    model: llm.LLM | None = None
    name: str = "review agent"
    records: list[Approval] = field(default_factory=list)

    def __call__(self, proposal: gate.Proposal) -> gate.Decision:
        """Decides on a candidate of a run, as a gate."""
        if self.rule is not None:
            return self.rule(proposal)
        evaluation = proposal.evaluation
        if evaluation is None or evaluation.failure is not None:
            return gate.Decision(
                "reject", evaluation.failure if evaluation and evaluation.failure else "not evaluated", self.name
            )
        return gate.Decision("accept", "evaluated", self.name)

    def review(self, worldline: Worldline, content: str, metrics: Mapping[str, float]) -> Approval:
        """Approves a worldline with complete progress and no contradictions, and records the decision."""
        progress, consistency = metrics.get("task_progress", 0.0), metrics.get("temporal_consistency", 0.0)
        is_approved = progress >= 1.0 and consistency >= 1.0
        reason = "complete and consistent" if is_approved else f"progress {progress:.2f}, consistency {consistency:.2f}"
        approval = Approval(worldline.worldline_id, candidate.content_hash(content), is_approved, reason, self.name)
        self.records.append(approval)
        return approval

    def require(self, worldline_id: str, content: str) -> Approval:
        """Returns the newest record that approves exactly this content.

        Raises:
            Conflict: The worldline was not approved, or was changed since.
        """
        for record in reversed(self.records):
            if record.worldline_id == worldline_id:
                if record.covers(worldline_id, content):
                    return record
                reason = "was changed after its approval" if record.is_approved else f"was rejected: {record.reason}"
                raise errors.Conflict(f"{worldline_id} {reason}. Review it again.")
        raise errors.Conflict(f"{worldline_id} is not approved. Review it first.")

    def criticize(self, prompt: str) -> str:
        """Returns the critique of the LLM; empty without an LLM."""
        return self.model(prompt).text if self.model is not None else ""


def to_data(approval: Approval) -> dict[str, Any]:
    """Returns an approval as plain data."""
    names = ("worldline_id", "digest", "is_approved", "reason", "by")
    return {name: getattr(approval, name) for name in names}

"""Reviews: who approves a worldline, and what an approval is good for.

An approval names what it approves by a digest, so that an edit afterwards makes it void.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from atoll import candidate, errors, gate, llm
from atoll.mind.tasks.problem import Problem, Verdict
from atoll.mind.worldline import Worldline

type Reviewer = Callable[[Problem, str, Verdict], float]

APPROVED, REJECTED, SILENT = 1.0, -1.0, 0.0


def by_verdict(problem: Problem, plan: str, verdict: Verdict) -> float:
    """Approves what is verified, rejects what cannot be read, and says nothing of the rest."""
    if verdict.is_solved:
        return APPROVED
    return REJECTED if any(each.kind == "format" for each in verdict.faults) else SILENT


@dataclass(frozen=True, slots=True)
class Approval:
    """A record that somebody looked at a worldline and said yes or no; plain data.

    Attributes:
        worldline_id: What was looked at.
        digest: Of its content at that moment.
        is_approved: What was said.
        reason: Why.
        by: Who said it.
    """

    worldline_id: str
    digest: str
    is_approved: bool
    reason: str
    by: str

    def covers(self, worldline_id: str, content: str) -> bool:
        """Says whether it approves exactly this."""
        return self.is_approved and self.worldline_id == worldline_id and self.digest == candidate.digest(content)


@dataclass(eq=False)
class ReviewAgent:
    """Reviews worldlines by rules, or by asking a model, and keeps a record of every decision.

    Attributes:
        rule: Decides from a proposal, as any gate of the kernel; by default what is solved is approved.
        model: Criticises in words where there is one.
        records: Every decision, in order.
    """

    rule: gate.Gate | None = None
    model: llm.LLM | None = None
    name: str = "review agent"
    records: list[Approval] = field(default_factory=list)

    def __call__(self, proposal: gate.Proposal) -> gate.Decision:
        """Decides on a candidate of a run: as a gate."""
        if self.rule is not None:
            return self.rule(proposal)
        found = proposal.evaluation
        if found is None or found.failure is not None:
            return gate.Decision("reject", found.failure if found and found.failure else "not judged", self.name)
        return gate.Decision("accept", "it was judged", self.name)

    def review(self, line: Worldline, content: str, metrics: Mapping[str, float]) -> Approval:
        """Approves a worldline whose progress is complete and that contradicts nothing; the record is kept."""
        done, consistent = metrics.get("task_progress", 0.0), metrics.get("temporal_consistency", 0.0)
        is_good = done >= 1.0 and consistent >= 1.0
        reason = "complete and consistent" if is_good else f"progress {done:.2f}, consistency {consistent:.2f}"
        made = Approval(line.worldline_id, candidate.digest(content), is_good, reason, self.name)
        self.records.append(made)
        return made

    def require(self, worldline_id: str, content: str) -> Approval:
        """Returns the newest record that approves exactly this content.

        Raises:
            Conflict: There is none: nobody approved it, or it was changed since.
        """
        for each in reversed(self.records):
            if each.worldline_id == worldline_id:
                if each.covers(worldline_id, content):
                    return each
                why = "was changed after its approval" if each.is_approved else f"was rejected: {each.reason}"
                raise errors.Conflict(f"{worldline_id} {why}: have it reviewed again.")
        raise errors.Conflict(f"Nobody has approved {worldline_id}: have it reviewed first.")

    def criticise(self, prompt: str) -> str:
        """Returns what the critic says, in words; empty where there is no model."""
        return self.model(prompt).text if self.model is not None else ""


def to_data(approval: Approval) -> dict[str, Any]:
    """Returns an approval as plain data."""
    names = ("worldline_id", "digest", "is_approved", "reason", "by")
    return {name: getattr(approval, name) for name in names}

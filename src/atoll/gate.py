"""Gates: they accept, hold or reject proposals before or after evaluation."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal, Protocol

from atoll.candidate import Candidate
from atoll.evaluation import Evaluation

type Verdict = Literal["accept", "hold", "reject"]

VERDICTS = ("accept", "hold", "reject")


@dataclass(frozen=True, slots=True)
class Proposal:
    """Input of a gate.

    Attributes:
        candidate: The proposed candidate.
        evaluation: Its evaluation; None for a prefilter, which decides before evaluation.
        parent_evaluations: Evaluations of its parents.
        known_candidates: Its parents and inspirations.
    """

    candidate: Candidate
    evaluation: Evaluation | None
    parent_evaluations: tuple[Evaluation, ...] = ()
    known_candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason and its author.

    Attributes:
        verdict: `hold` waits for an approver.
        reason: Reason, for users.
        decided_by: The gate or the approver.
        version: `key@n` if applying it made a version.
    """

    verdict: Verdict
    reason: str
    decided_by: str
    version: str | None = None


class Gate(Protocol):
    """Decides whether a proposal may change the population."""

    def __call__(self, proposal: Proposal, /) -> Decision:
        """Decides from the proposal alone.

        Called once before evaluation (a prefilter) or once after it, from a worker thread; may be slow. Must reject
        a bad candidate instead of raising; an exception counts as a rejection.
        """


def has_score(proposal: Proposal) -> Decision:
    """Accepts candidates that have a score."""
    if proposal.evaluation is not None and proposal.evaluation.failure is not None:
        return Decision("reject", proposal.evaluation.failure, "ran")
    return Decision("accept", "it ran", "ran")


def require_improvement(margin: float = 0.0) -> Gate:
    """Accepts candidates that score more than their best parent plus `margin`."""

    def decide(proposal: Proposal) -> Decision:
        score = proposal.evaluation.score if proposal.evaluation else None
        parents = [parent.score for parent in proposal.parent_evaluations if parent.score is not None]
        if score is None:
            return Decision("reject", "it has no score", "improved")
        if not parents:
            return Decision("accept", f"{score:.6g} against None", "improved")
        best = max(parents)
        if score > best + margin:
            return Decision("accept", f"{score:.6g} against {best:.6g}", "improved")
        return Decision("reject", f"{score:.6g} is not above {best:.6g} + {margin:g}", "improved")

    return decide


def require_significance(alpha: float = 0.05, resamples: int = 9_999) -> Gate:
    """Accepts candidates that beat their best parent on the same inputs in a one-sided paired sign-flip test.

    Exact up to 12 inputs; beyond that, `resamples` random flips with the candidate's id as the seed.
    """

    def decide(proposal: Proposal) -> Decision:
        child_scores = proposal.evaluation.scores if proposal.evaluation else ()
        scored_parents = [parent for parent in proposal.parent_evaluations if parent.score is not None]
        if not scored_parents:
            return Decision("accept", "no scored parent to compare with", "significant")
        best_parent = max(scored_parents, key=lambda parent: parent.score or 0.0)
        if not child_scores or len(best_parent.scores) != len(child_scores):
            return Decision("reject", "it cannot be compared with its parent on the same inputs", "significant")
        differences = [child - parent for child, parent in zip(child_scores, best_parent.scores, strict=True)]
        p_value = _sign_flip_p(differences, resamples, Random(proposal.candidate.id))
        verdict: Verdict = "accept" if p_value <= alpha else "reject"
        return Decision(verdict, f"p = {p_value:.4f} on {len(differences)} inputs, alpha = {alpha:g}", "significant")

    return decide


def _sign_flip_p(differences: Sequence[float], resamples: int, rng: Random) -> float:
    nonzero = [difference for difference in differences if difference != 0.0]
    observed = sum(nonzero) - 1e-12 * sum(map(abs, nonzero))
    if not nonzero or observed <= 0:
        return 1.0
    if len(nonzero) <= 12:
        flips = list(itertools.product((1, -1), repeat=len(nonzero)))
        return sum(math.sumprod(signs, nonzero) >= observed for signs in flips) / len(flips)
    random_flips = (rng.choices((1, -1), k=len(nonzero)) for _ in range(resamples))
    return (sum(math.sumprod(signs, nonzero) >= observed for signs in random_flips) + 1) / (resamples + 1)


def reject_duplicates(proposal: Proposal) -> Decision:
    """Rejects candidates that equal a known one except for white space. A prefilter: duplicates are not evaluated."""
    tokens = proposal.candidate.content.split()
    for known in proposal.known_candidates:
        if known.content.split() == tokens:
            return Decision("reject", f"it repeats {known.id}", "novel")
    return Decision("accept", "it is new", "novel")


def require_all(*gates: Gate) -> Gate:
    """Accepts if all gates accept. The first rejection wins; otherwise the first hold."""

    def decide(proposal: Proposal) -> Decision:
        first_hold: Decision | None = None
        decision = Decision("accept", "no gate", "all_of")
        for gate in gates:
            decision = gate(proposal)
            if decision.verdict == "reject":
                return decision
            if decision.verdict == "hold" and first_hold is None:
                first_hold = decision
        return first_hold or decision

    return decide


def hold_all(proposal: Proposal) -> Decision:
    """Holds every proposal for an approver."""
    return Decision("hold", "waits for approval", "ask")


def reject_all(proposal: Proposal) -> Decision:
    """Rejects every proposal."""
    return Decision("reject", "nothing may change here", "deny")

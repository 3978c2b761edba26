"""Who may change a population."""

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
    """What a gate decides on.

    Attributes:
        candidate: What is proposed.
        evaluation: What was found out; None when the gate is asked before judging (a screen).
        rivals: Evaluations of its parents.
        kin: Its parents and the others that its maker was shown.
    """

    candidate: Candidate
    evaluation: Evaluation | None
    parent_evaluations: tuple[Evaluation, ...] = ()
    known_candidates: tuple[Candidate, ...] = ()


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict with its reason and its author.

    Attributes:
        verdict: `hold` waits for somebody to decide later.
        reason: Why, in words for a person.
        by: The gate or the person that decided.
        version: `key@n` where carrying it out made a version.
    """

    verdict: Verdict
    reason: str
    decided_by: str
    version: str | None = None


class Gate(Protocol):
    """Decides whether a proposal may change the population."""

    def __call__(self, proposal: Proposal, /) -> Decision:
        """Decides from the proposal alone.

        Called once before judging (a screen) or once after it, from a worker thread; may be slow. Never raises for
        a bad candidate: returns a rejection that says why. One that raises all the same rejects.
        """


def has_score(proposal: Proposal) -> Decision:
    """Accepts what has a score."""
    if proposal.evaluation is not None and proposal.evaluation.failure is not None:
        return Decision("reject", proposal.evaluation.failure, "ran")
    return Decision("accept", "it ran", "ran")


def require_improvement(margin: float = 0.0) -> Gate:
    """Accepts what scores more than its best parent plus `margin`."""

    def decide(proposal: Proposal) -> Decision:
        score = proposal.evaluation.score if proposal.evaluation else None
        best_parent_score = max(
            (parent.score for parent in proposal.parent_evaluations if parent.score is not None), default=None
        )
        if score is None:
            return Decision("reject", "it has no score", "improved")
        if best_parent_score is None or score > best_parent_score + margin:
            return Decision(
                "accept",
                f"{score:.6g} against {best_parent_score if best_parent_score is None else format(best_parent_score, '.6g')}",
                "improved",
            )
        return Decision("reject", f"{score:.6g} is not above {best_parent_score:.6g} + {margin:g}", "improved")

    return decide


def require_significance(alpha: float = 0.05, resamples: int = 9_999) -> Gate:
    """Accepts what beats its best parent on the same inputs by a one-sided paired sign-flip test.

    Exact up to 12 inputs, otherwise over `resamples` flips drawn from the candidate's id, so that a rerun agrees.
    """

    def decide(proposal: Proposal) -> Decision:
        child_scores = proposal.evaluation.scores if proposal.evaluation else ()
        scored_parents = [parent for parent in proposal.parent_evaluations if parent.score is not None]
        if not scored_parents:
            return Decision("accept", "there is nothing to compare with", "significant")
        best_parent = max(scored_parents, key=lambda parent: parent.score or 0.0)
        if not child_scores or len(best_parent.scores) != len(child_scores):
            return Decision("reject", "it cannot be compared with its parent on the same inputs", "significant")
        differences = [
            child_score - parent_score
            for child_score, parent_score in zip(child_scores, best_parent.scores, strict=True)
        ]
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
    """Rejects what repeats one of its kin but for white space; a screen, so a repeat costs no evaluation."""
    tokens = proposal.candidate.content.split()
    for known in proposal.known_candidates:
        if known.content.split() == tokens:
            return Decision("reject", f"it repeats {known.id}", "novel")
    return Decision("accept", "it is new", "novel")


def require_all(*gates: Gate) -> Gate:
    """Accepts what every gate accepts; the first rejection ends it, a hold waits until none rejects."""

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
    """Holds everything until somebody decides."""
    return Decision("hold", "waits for approval", "ask")


def reject_all(proposal: Proposal) -> Decision:
    """Rejects everything."""
    return Decision("reject", "nothing may change here", "deny")

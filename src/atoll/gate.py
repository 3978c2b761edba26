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
    rivals: tuple[Evaluation, ...] = ()
    kin: tuple[Candidate, ...] = ()


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
    by: str
    version: str | None = None


class Gate(Protocol):
    """Decides whether a proposal may change the population."""

    def __call__(self, proposal: Proposal, /) -> Decision:
        """Decides from the proposal alone.

        Called once before judging (a screen) or once after it, from a worker thread; may be slow. Never raises for
        a bad candidate: returns a rejection that says why. One that raises all the same rejects.
        """


def ran(proposal: Proposal) -> Decision:
    """Accepts what has a score."""
    if proposal.evaluation is not None and proposal.evaluation.failure is not None:
        return Decision("reject", proposal.evaluation.failure, "ran")
    return Decision("accept", "it ran", "ran")


def improved(margin: float = 0.0) -> Gate:
    """Accepts what scores more than its best parent plus `margin`."""

    def decide(proposal: Proposal) -> Decision:
        score = proposal.evaluation.score if proposal.evaluation else None
        bar = max((rival.score for rival in proposal.rivals if rival.score is not None), default=None)
        if score is None:
            return Decision("reject", "it has no score", "improved")
        if bar is None or score > bar + margin:
            return Decision("accept", f"{score:.6g} against {bar if bar is None else format(bar, '.6g')}", "improved")
        return Decision("reject", f"{score:.6g} is not above {bar:.6g} + {margin:g}", "improved")

    return decide


def significant(alpha: float = 0.05, resamples: int = 9_999) -> Gate:
    """Accepts what beats its best parent on the same inputs by a one-sided paired sign-flip test.

    Exact up to 12 inputs, otherwise over `resamples` flips drawn from the candidate's id, so that a rerun agrees.
    """

    def decide(proposal: Proposal) -> Decision:
        ours = proposal.evaluation.scores if proposal.evaluation else ()
        rivals = [rival for rival in proposal.rivals if rival.score is not None]
        if not rivals:
            return Decision("accept", "there is nothing to compare with", "significant")
        best = max(rivals, key=lambda rival: rival.score or 0.0)
        if not ours or len(best.scores) != len(ours):
            return Decision("reject", "it cannot be compared with its parent on the same inputs", "significant")
        differences = [mine - theirs for mine, theirs in zip(ours, best.scores, strict=True)]
        p = _sign_flip_p(differences, resamples, Random(proposal.candidate.id))
        verdict: Verdict = "accept" if p <= alpha else "reject"
        return Decision(verdict, f"p = {p:.4f} on {len(differences)} inputs, alpha = {alpha:g}", "significant")

    return decide


def _sign_flip_p(differences: Sequence[float], resamples: int, rng: Random) -> float:
    found = [each for each in differences if each != 0.0]
    observed = sum(found) - 1e-12 * sum(map(abs, found))
    if not found or observed <= 0:
        return 1.0
    if len(found) <= 12:
        flips = list(itertools.product((1, -1), repeat=len(found)))
        return sum(math.sumprod(signs, found) >= observed for signs in flips) / len(flips)
    drawn = (rng.choices((1, -1), k=len(found)) for _ in range(resamples))
    return (sum(math.sumprod(signs, found) >= observed for signs in drawn) + 1) / (resamples + 1)


def novel(proposal: Proposal) -> Decision:
    """Rejects what repeats one of its kin but for white space; a screen, so a repeat costs no evaluation."""
    words = proposal.candidate.content.split()
    for other in proposal.kin:
        if other.content.split() == words:
            return Decision("reject", f"it repeats {other.id}", "novel")
    return Decision("accept", "it is new", "novel")


def all_of(*gates: Gate) -> Gate:
    """Accepts what every gate accepts; the first rejection ends it, a hold waits until none rejects."""

    def decide(proposal: Proposal) -> Decision:
        held: Decision | None = None
        decision = Decision("accept", "no gate", "all_of")
        for gate in gates:
            decision = gate(proposal)
            if decision.verdict == "reject":
                return decision
            if decision.verdict == "hold" and held is None:
                held = decision
        return held or decision

    return decide


def ask(proposal: Proposal) -> Decision:
    """Holds everything until somebody decides."""
    return Decision("hold", "waits for approval", "ask")


def deny(proposal: Proposal) -> Decision:
    """Rejects everything."""
    return Decision("reject", "nothing may change here", "deny")

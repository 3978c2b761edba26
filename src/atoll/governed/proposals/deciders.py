"""Who decides on a proposal: a function that is asked at once, or somebody later."""

from collections.abc import Callable
from queue import Empty, Queue
from threading import Thread
from typing import NamedTuple

from atoll import errors
from atoll.governed.proposals.proposal import Proposal
from atoll.governed.proposals.proposals import AlreadyDecided, Proposals

# Looks at a proposal and says whether it may be carried out.
type ApprovalFunc = Callable[[Proposal], bool]

_DEFAULT_SECONDS = 60.0


class Decider(NamedTuple):
    """A function that decides for somebody.

    Attributes:
        name: For whom: it stands in the audit log, and is never the author.
        approve: What decides. One that raises or takes too long has rejected.
        seconds: How long it may take.
    """

    name: str
    approve: ApprovalFunc
    seconds: float = _DEFAULT_SECONDS


DEFER = "later"  # the proposal waits for the command line, the page or a signed message


def run_decider(
    proposals: Proposals, proposal: Proposal, decider: Decider | str | None, *, allow_auto_approval: bool = True
) -> Proposal:
    """Has a pending proposal decided; `LATER` leaves it pending, and without a decider it is rejected.

    Args:
        may_pass: Whether it may pass by rule at all: what takes the place of something approved may not.

    Raises:
        Decided: Somebody else was faster.
    """
    if allow_auto_approval and proposals.policy.auto_approve_read_only and proposals.policy.is_read_only(proposal):
        return proposals.auto_approve(proposal.id, "it adds words alone, and the policy lets those pass")
    if decider == DEFER:
        return proposal
    if not isinstance(decider, Decider):
        reason = "there is nobody who could approve it"
        return proposals.close(proposal.id, "rejected", "policy", reason)
    if refusal_reason := proposals.policy.get_refusal_reason(proposal, decider.name):
        return proposals.close(proposal.id, "rejected", "policy", refusal_reason)
    approve, reason = _call_decider(decider, proposal)
    return proposals.decide(
        proposal.id, decider.name, approve=approve, reason=reason, content_hash=proposal.content_hash
    )


def _call_decider(decider: Decider, proposal: Proposal) -> tuple[bool, str]:
    answers: Queue[object] = Queue()
    # A thread that never ends is left behind: a decision cannot be taken out of anybody.
    Thread(target=lambda: answers.put(errors.capture(lambda: decider.approve(proposal))), daemon=True).start()
    try:
        answer = answers.get(timeout=decider.seconds)
    except Empty:
        return False, f"{decider.name} did not answer within {decider.seconds:g} seconds"
    if isinstance(answer, errors.CaughtException):
        return False, f"{decider.name} failed: {answer}"
    if answer is True:
        return True, f"{decider.name} approves"
    return False, f"{decider.name} rejects" if answer is False else f"{decider.name} said neither yes nor no"


__all__ = ["DEFER", "ApprovalFunc", "AlreadyDecided", "Decider", "run_decider"]

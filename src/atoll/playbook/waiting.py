"""What waits for a person: deltas that the curator holds, and what somebody decides about them."""

import json
from dataclasses import replace
from typing import NamedTuple

from atoll import candidate, errors
from atoll.playbook.curator import CurationResult, Curator
from atoll.playbook.delta import Delta, Verdict
from atoll.playbook.playbook import Playbook

MIN_PREFIX = 4  # letters of a name that somebody may type instead of all of it


class HeldDelta(NamedTuple):
    """A delta that is held.

    Attributes:
        id: Names it, whatever else waits: a digest of what it says.
        times: How often it came up, and `turn` when last.
        reason: Why it waits, as the curator would say now.
        against: The bullets that stand against it.
    """

    id: str
    delta: Delta
    times: int
    turn: int
    reason: str
    against: tuple[str, ...]


def make_held_id(delta: Delta) -> str:
    """Returns what a held delta is called."""
    return candidate.content_hash(json.dumps(delta.to_data(), sort_keys=True))[:10]


def list_held(curator: Curator, playbook: Playbook) -> list[HeldDelta]:
    """Returns what waits, the oldest first, each with why it would wait again."""
    held_deltas = []
    for held in playbook.held:
        (verdict,) = curator.curate(playbook, [held.delta]).verdicts
        held_deltas.append(HeldDelta(make_held_id(held.delta), *held, verdict.reason, verdict.ids))
    return held_deltas


def decide_held(curator: Curator, playbook: Playbook, id: str, reason: str, author: str, *, is_approved: bool) -> CurationResult:
    """Returns a playbook after a person's decision about what waits.

    What is applied needs no more evidence than the person's reason; it must still be fit to be a bullet and find room.

    Raises:
        NotFound: Nothing of that name waits.
        SetupError: The reason or the name of the person is empty.
        Conflict: It cannot be applied; the message says why.
    """
    if not reason.strip() or not author.strip():
        raise errors.SetupError("A decision needs a reason and a name: say why, and who you are.")
    delta = _find_held(playbook, id)
    remaining = playbook.with_held(entry for entry in playbook.held if entry.delta != delta)
    if not is_approved:
        verdict = Verdict(delta, "rejected", f"{author}: {reason}", delta.ids)
        return CurationResult(remaining.with_turn(playbook.turn + 1), (verdict,), ())
    permissive_curator = Curator(curator.config.model_copy(update={"insist": 1}), count_tokens=curator.count_tokens)
    approved = replace(delta, evidence=delta.evidence.strip() or reason, priority="high")
    result = permissive_curator.curate(remaining, [approved])
    (verdict,) = result.verdicts
    if verdict.outcome != "applied":
        raise errors.Conflict(f"It cannot be applied: {verdict.reason}.")
    noted = replace(verdict, reason=f"{verdict.reason}; {author}: {reason}")
    return result._replace(verdicts=(noted,))


def _find_held(playbook: Playbook, id: str) -> Delta:
    matches = [entry.delta for entry in playbook.held if len(id) >= MIN_PREFIX and make_held_id(entry.delta).startswith(id)]
    if len(matches) == 1:
        return matches[0]
    ids = ", ".join(make_held_id(entry.delta) for entry in playbook.held) or "nothing"
    raise errors.NotFound(f"No delta {id!r:.40} waits: there is {ids}.")

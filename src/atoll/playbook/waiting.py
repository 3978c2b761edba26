"""What waits for a person: deltas that the curator holds, and what somebody decides about them."""

import json
from dataclasses import replace
from typing import NamedTuple

from atoll import candidate, errors
from atoll.playbook.curator import Curated, Curator
from atoll.playbook.delta import Delta, Verdict
from atoll.playbook.playbook import Playbook

LEAST = 4  # letters of a name that somebody may type instead of all of it


class Waiting(NamedTuple):
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


def name_of(delta: Delta) -> str:
    """Returns what a held delta is called."""
    return candidate.digest(json.dumps(delta.to_data(), sort_keys=True))[:10]


def waiting(curator: Curator, playbook: Playbook) -> list[Waiting]:
    """Returns what waits, the oldest first, each with why it would wait again."""
    found = []
    for held in playbook.held:
        (verdict,) = curator.curate(playbook, [held.delta]).verdicts
        found.append(Waiting(name_of(held.delta), *held, verdict.reason, verdict.ids))
    return found


def decided(curator: Curator, playbook: Playbook, id: str, reason: str, author: str, *, is_applied: bool) -> Curated:
    """Returns a playbook after a person's decision about what waits.

    What is applied needs no more evidence than the person's reason; it must still be fit to be a bullet and find room.

    Raises:
        NotFound: Nothing of that name waits.
        SetupError: The reason or the name of the person is empty.
        Conflict: It cannot be applied; the message says why.
    """
    if not reason.strip() or not author.strip():
        raise errors.SetupError("A decision needs a reason and a name: say why, and who you are.")
    delta = _meant(playbook, id)
    left = playbook.holding(each for each in playbook.held if each.delta != delta)
    if not is_applied:
        verdict = Verdict(delta, "rejected", f"{author}: {reason}", delta.ids)
        return Curated(left.at(playbook.turn + 1), (verdict,), ())
    ready = Curator(curator.config.model_copy(update={"insist": 1}), count_tokens=curator.count_tokens)
    said = replace(delta, evidence=delta.evidence.strip() or reason, priority="high")
    curated = ready.curate(left, [said])
    (verdict,) = curated.verdicts
    if verdict.outcome != "applied":
        raise errors.Conflict(f"It cannot be applied: {verdict.reason}.")
    told = replace(verdict, reason=f"{verdict.reason}; {author}: {reason}")
    return curated._replace(verdicts=(told,))


def _meant(playbook: Playbook, id: str) -> Delta:
    close = [each.delta for each in playbook.held if len(id) >= LEAST and name_of(each.delta).startswith(id)]
    if len(close) == 1:
        return close[0]
    names = ", ".join(name_of(each.delta) for each in playbook.held) or "nothing"
    raise errors.NotFound(f"No delta {id!r:.40} waits: there is {names}.")

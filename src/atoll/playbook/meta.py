"""A playbook as the memory of a search: what its changes were to do, and whether they did."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from atoll import function
from atoll.candidate import JSON
from atoll.playbook.bullet import Bullet
from atoll.playbook.delta import add, tag
from atoll.playbook.store import Store

WORKED, FAILED = "worked", "failed"


class MetaNotes:
    """A `function.Learner` that keeps the notes of all steps, not only the last ones, each once and with its counters.

    It advises as `programs.notes.Notes` does, so that a prompt that shows those shows these.

    Args:
        store: The playbook; in memory it is rebuilt on resume, in a file it is found there.
        run: The run's id: a step that is learnt again after a crash changes nothing.
        most: Notes of each kind that a step is told.
        chars: The longest note.
    """

    def __init__(self, store: Store, run: str, *, most: int = 3, chars: int = 160) -> None:
        self._store, self._run, self._most, self._chars = store, run, most, chars

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Says what helped most often, and what failed most often."""
        sections = self._store.current().sections()
        told = {name: self._first(sections.get(name, ())) for name in (WORKED, FAILED)}
        return {name: notes for name, notes in told.items() if notes}

    def learn(self, outcome: function.Outcome) -> None:
        """Notes what the step's children were to do, and tags it by whether they did."""
        before = max((function.rank_of(each) for each in outcome.parents if each.evaluation), default=float("-inf"))
        for place, (fn, decision) in enumerate(outcome.children):
            meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
            note = str(meta.get("note") or "")[: self._chars]
            if note:
                did = decision.verdict == "accept" and fn.evaluation is not None and function.rank_of(fn) > before
                self._keep(note, did, f"{self._run}/notes/{outcome.step}.{place}")

    def _keep(self, note: str, did: bool, token: str) -> None:
        section = WORKED if did else FAILED
        change = self._store.apply([add(section, note)], f"it {section}", "meta notes", token=token)
        (verdict,) = change.verdicts
        # What is counted is how often a note was true: one that worked and now fails speaks against itself.
        known = [change.playbook.bullets[id] for id in verdict.ids if id in change.playbook.bullets]
        said = [tag(each.id, "helpful" if each.section == section else "harmful") for each in known]
        if verdict.outcome == "applied":
            self._store.apply(said, f"it {section}", "meta notes", token=f"{token}/tag")

    def _first(self, bullets: Sequence[Bullet]) -> list[JSON]:
        ranked = sorted(bullets, key=lambda each: (-each.net, -each.used, each.id))
        return [each.content for each in ranked[: self._most]]

"""A playbook as the memory of a search: what its changes were to do, and whether they did."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Any

from atoll import function
from atoll.candidate import JSON
from atoll.playbook.bullet import Bullet
from atoll.playbook.delta import add, tag
from atoll.playbook.store import PlaybookStore

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

    def __init__(self, store: PlaybookStore, run: str, *, max_notes: int = 3, max_chars: int = 160) -> None:
        self._store, self._run, self._max_notes, self._max_chars = store, run, max_notes, max_chars

    def advise(self, rng: Random) -> Mapping[str, JSON]:
        """Says what helped most often, and what failed most often."""
        sections = self._store.current().sections()
        notes_by_section = {name: self._get_top(sections.get(name, ())) for name in (WORKED, FAILED)}
        return {name: notes for name, notes in notes_by_section.items() if notes}

    def learn(self, result: function.IterationResult) -> None:
        """Notes what the step's children were to do, and tags it by whether they did."""
        parent_fitness = max(
            (function.get_fitness(parent) for parent in result.parents if parent.evaluation), default=float("-inf")
        )
        for index, (fn, decision) in enumerate(result.children):
            meta: Mapping[str, Any] = fn.candidate.meta if fn.candidate else {}
            note = str(meta.get("note") or "")[: self._max_chars]
            if note:
                improved = (
                    decision.verdict == "accept"
                    and fn.evaluation is not None
                    and function.get_fitness(fn) > parent_fitness
                )
                self._save_note(note, improved, f"{self._run}/notes/{result.iteration}.{index}")

    def _save_note(self, note: str, improved: bool, token: str) -> None:
        section = WORKED if improved else FAILED
        change = self._store.apply([add(section, note)], f"it {section}", "meta notes", token=token)
        (verdict,) = change.verdicts
        # What is counted is how often a note was true: one that worked and now fails speaks against itself.
        bullets = [change.playbook.bullets[id] for id in verdict.ids if id in change.playbook.bullets]
        tags = [tag(bullet.id, "helpful" if bullet.section == section else "harmful") for bullet in bullets]
        if verdict.outcome == "applied":
            self._store.apply(tags, f"it {section}", "meta notes", token=f"{token}/tag")

    def _get_top(self, bullets: Sequence[Bullet]) -> list[JSON]:
        ranked = sorted(bullets, key=lambda bullet: (-bullet.net_helpful, -bullet.used, bullet.id))
        return [bullet.content for bullet in ranked[: self._max_notes]]

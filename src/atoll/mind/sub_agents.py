"""Sub-agents of a conversation: planner, researcher, critic and verifier. Their results become notes in the memory.

Each role is a call of its own, with its own prompt. `role_calls` limits the calls of a role per island.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from atoll.candidate import JSON

type Role = Literal["planner", "critic", "verifier", "researcher"]

REQUESTS: Mapping[Role, str] = {
    "researcher": (
        "Be the researcher. List the facts of the task that decide which plans are possible, such as tight limits and "
        "fixed times. Write at most eight lines that begin with a dash. Do not write a plan."
    ),
    "planner": (
        "Be the planner. Describe an approach: what to decide first, second and last, and why. Write at most six lines "
        "that begin with a dash. Do not write the plan itself."
    ),
    "critic": (
        "Be the critic. Compare all plans above and name the best one. List what contradicts the task and what to "
        "change first, in a few lines that begin with a dash. Do not write a plan."
    ),
    "verifier": (
        "Be an independent reviewer. Check the plan above against the task, one requirement after the other. End with "
        "the word APPROVE if the plan satisfies all of them, or with the word REJECT and the first requirement that it "
        "breaks."
    ),
}
_VERDICT = re.compile(r"\b(APPROVE|REJECT)\b")
_MAX_NOTE_CHARS, _MAX_NOTES = 800, 6


class Note(NamedTuple):
    """Result of a sub-agent in the memory of worldlines.

    Attributes:
        id: Iteration and role.
        role: The role.
        text: The text, shortened.
    """

    id: str
    role: str
    text: str

    def to_data(self) -> dict[str, JSON]:
        return {"id": self.id, "role": self.role, "text": self.text}


def make_note(iteration: int, role: str, text: str) -> Note:
    return Note(f"{iteration}.{role}", role, text.strip()[:_MAX_NOTE_CHARS])


def is_due(role: Role, roles: Sequence[Role], role_calls: int, conversation_number: int) -> bool:
    """Returns whether a role is called in a conversation of an island, counted from 0 over all generations."""
    return role in roles and conversation_number < role_calls


def parse_verdict(response: str) -> float:
    """Returns 1 for APPROVE, -1 for REJECT, and 0 without a verdict. The last word decides."""
    verdicts = _VERDICT.findall(response)
    return 0.0 if not verdicts else 1.0 if verdicts[-1] == "APPROVE" else -1.0


def collect_notes(metas: Iterable[Mapping[str, Any]]) -> list[Note]:
    """Returns the notes of candidates, from their metadata, without repeated texts. Newer notes come last."""
    notes = dict[str, Note]()
    for meta in metas:
        for data in meta.get("memory") or ():
            note = Note(str(data.get("id", "")), str(data.get("role", "")), str(data.get("text", "")))
            notes.setdefault(note.text, note)
    return list(notes.values())[-_MAX_NOTES:]


def format_notes(notes: Sequence[Note]) -> list[str]:
    """Returns notes as sections of a prompt."""
    return [f"The {note.role} wrote:\n{note.text}" for note in notes[-_MAX_NOTES:]]


def list_points(critique: str) -> list[str]:
    """Returns the points of a critique: its lines that begin with a dash."""
    lines = (line.strip() for line in critique.splitlines())
    return [point for line in lines if line.startswith("-") and (point := line.strip("- "))]

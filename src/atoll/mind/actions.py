"""Typed actions of a worldline, which are recorded and can be repeated, and the sub-agents that add some."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, NamedTuple

from atoll import errors
from atoll.candidate import JSON


@dataclass(frozen=True, slots=True)
class Think:
    """Writes a note. Changes nothing."""

    note: str


@dataclass(frozen=True, slots=True)
class Task:
    """Assigns a goal to a role: one step of a plan, or a run of another agent."""

    role: str
    goal: str


@dataclass(frozen=True, slots=True)
class WorldlineFork:
    """Requests a separate worldline for a point that the critic made. The plan is text."""

    plan: str


@dataclass(frozen=True, slots=True)
class Read:
    """Reads a file of the workspace.

    Attributes:
        path: Path of the file.
        lines: Range such as "10-40"; empty for the whole file.
    """

    path: str
    lines: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces a text that occurs once in a file. An empty `old` writes the whole file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Run:
    """Runs a program with its arguments in the workspace."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListFiles:
    """Lists the files of a folder; an empty path is the top."""

    path: str


@dataclass(frozen=True, slots=True)
class Search:
    """Searches all text files for a text."""

    text: str


@dataclass(frozen=True, slots=True)
class RunTests:
    """Runs the tests of the workspace."""


type Action = Think | Task | WorldlineFork | Read | Edit | Run | ListFiles | Search | RunTests

ACTION_TYPES: Mapping[str, type[Action]] = {
    "think": Think,
    "task": Task,
    "fork": WorldlineFork,
    "read": Read,
    "edit": Edit,
    "run": Run,
    "list": ListFiles,
    "search": Search,
    "test": RunTests,
}
ACTION_NAMES = {kind: name for name, kind in ACTION_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Result:
    """Result of one action. A failed action is data, not an exception.

    Attributes:
        action: The action.
        is_ok: Whether it succeeded.
        output: Its output, shortened if long.
        seconds: Wall-clock time.
    """

    action: Action
    is_ok: bool = True
    output: str = ""
    seconds: float = 0.0

    def to_data(self) -> dict[str, JSON]:
        return {"action": to_data(self.action), "ok": self.is_ok, "output": self.output, "seconds": self.seconds}


def to_data(action: Action) -> dict[str, JSON]:
    """Returns an action as plain data."""
    return {"do": ACTION_NAMES[type(action)], **asdict(action)}


def from_data(data: Mapping[str, Any]) -> Action:
    """Reads an action from the data that `to_data` returns.

    Raises:
        SetupError: The name is unknown, or the fields do not match the action.
    """
    action_type: Any = ACTION_TYPES.get(str(data.get("do")))
    values = {name: value for name, value in data.items() if name != "do"}
    if action_type is Read:
        values.setdefault("lines", "")  # not stored by version 0.1
    if action_type is None or set(values) != set(action_type.__dataclass_fields__):
        raise errors.SetupError(
            f"{dict(data)!r:.80} is not an action. Use one of {', '.join(ACTION_TYPES)} with its fields."
        )
    if action_type is Run:
        command = values["command"]
        if not isinstance(command, Sequence) or isinstance(command, str) or not command:
            raise errors.SetupError(f"{command!r:.60} is not a command. Pass the program and its arguments as a list.")
        return Run(tuple(str(argument) for argument in command))
    action: Action = action_type(**{name: str(value) for name, value in values.items()})
    return action


def result_from_data(data: Mapping[str, Any]) -> Result:
    """Reads a result from the data that `Result.to_data` returns."""
    return Result(from_data(data["action"]), bool(data["ok"]), str(data["output"]), float(data["seconds"]))


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
        "change first, in at most three short lines that begin with a dash. Do not write a plan."
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

"""What a worldline does: typed actions that are recorded and can be done again."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from atoll import errors
from atoll.candidate import JSON


@dataclass(frozen=True, slots=True)
class Think:
    """Writes a note down and changes nothing."""

    note: str


@dataclass(frozen=True, slots=True)
class Task:
    """Gives a goal to a role: a step of a plan, or a sub-run by another agent."""

    role: str
    goal: str


@dataclass(frozen=True, slots=True)
class WorldlineFork:
    """Asks for a worldline of its own for what a critic pointed out; the plan is in words."""

    plan: str


@dataclass(frozen=True, slots=True)
class Read:
    """Looks at a file, by its path in the workspace."""

    path: str


@dataclass(frozen=True, slots=True)
class Edit:
    """Replaces a text that stands once in a file; an empty `old` writes the whole file."""

    path: str
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Run:
    """Runs a program with its arguments in the workspace."""

    command: tuple[str, ...]


type Action = Think | Task | WorldlineFork | Read | Edit | Run

ACTION_TYPES: Mapping[str, type[Action]] = {
    "think": Think,
    "task": Task,
    "fork": WorldlineFork,
    "read": Read,
    "edit": Edit,
    "run": Run,
}
ACTION_NAMES = {kind: name for name, kind in ACTION_TYPES.items()}


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one action; a failed one is data and never an exception.

    Attributes:
        action: What was done.
        is_ok: Whether it did what it should.
        output: What it said, cut where it is long.
        seconds: Wall clock that it took.
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
    """Reads back what `to_data` wrote.

    Raises:
        SetupError: It is no action: its name is unknown, or it lacks something or has something else.
    """
    action_type: Any = ACTION_TYPES.get(str(data.get("do")))
    values = {name: value for name, value in data.items() if name != "do"}
    if action_type is None or set(values) != set(action_type.__dataclass_fields__):
        raise errors.SetupError(
            f"{dict(data)!r:.80} is no action: there are {', '.join(ACTION_TYPES)}, each with its fields."
        )
    if action_type is Run:
        command = values["command"]
        if not isinstance(command, Sequence) or isinstance(command, str) or not command:
            raise errors.SetupError(f"{command!r:.60} is no command: give the program and its arguments as a list.")
        return Run(tuple(str(argument) for argument in command))
    action: Action = action_type(**{name: str(value) for name, value in values.items()})
    return action


def result_from_data(data: Mapping[str, Any]) -> Result:
    """Reads back what `Result.to_data` wrote."""
    return Result(from_data(data["action"]), bool(data["ok"]), str(data["output"]), float(data["seconds"]))

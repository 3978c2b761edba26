"""Replay events, the Reflector interface, reports and checkpoints."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, Self, runtime_checkable

import msgspec

from atoll import errors
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.evidence.logs import LogEntry, ReadIssue


class ReplayEvent(msgspec.Struct, frozen=True, gc=False):
    """Decision with one measurement.

    Attributes:
        log: The decision.
        feedback: The measurement; None while pending.
        meta: Left empty by the replayer; free for others.
    """

    log: LogEntry
    feedback: Feedback | None = None
    meta: dict[str, Any] | None = None


class Reflector(Protocol):
    """Learns from events.

    Called by one thread, event by event, in order of registration. Exceptions are counted and logged; they stop neither
    the replay nor the other reflectors.
    """

    def on_event(self, event: ReplayEvent, /) -> object: ...


@runtime_checkable
class Stateful(Protocol):
    """Reflector whose state can be saved in a checkpoint."""

    def state(self) -> Any:
        """Returns the state as JSON data."""

    def restore(self, state: Any) -> None:
        """Restores a result of `state`."""


MAX_BAD_LINES = 20
_RENAMED_REFLECTORS = {"Aggregator": "AggregatorReflector"}  # class names in checkpoints of Atoll 0.1.0


@dataclass(slots=True)
class ReplayReport:
    """Counts of a replay. Equal logs give equal bytes.

    Attributes:
        entries: Decisions read.
        filtered: Decisions removed by the filter.
        paired: Events with feedback.
        pending: Events without feedback.
        errors: Number of exceptions by reflector.
        first_errors: First exception of each reflector.
        issues: Number of invalid lines; `bad_lines` has the first ones.
        in_progress: Files whose last line is still being written.
        is_stopped: The replay was stopped before the end.
    """

    entries: int = 0
    filtered: int = 0
    paired: int = 0
    pending: int = 0
    errors: dict[str, int] = field(default_factory=dict)
    first_errors: dict[str, str] = field(default_factory=dict)
    issues: int = 0
    bad_lines: list[ReadIssue] = field(default_factory=list)
    in_progress: int = 0
    is_stopped: bool = False

    @property
    def events(self) -> int:
        """Number of events for each reflector."""
        return self.paired + self.pending

    @property
    def num_errors(self) -> int:
        return sum(self.errors.values())

    def count_error(self, reflector: str, message: str) -> None:
        self.errors[reflector] = self.errors.get(reflector, 0) + 1
        self.first_errors.setdefault(reflector, message)

    def count_issues(self, count: int, issues: Sequence[ReadIssue]) -> None:
        self.issues += count
        self.bad_lines = [*self.bad_lines, *issues][:MAX_BAD_LINES]

    def to_data(self) -> Mapping[str, Any]:
        data = {name: getattr(self, name) for name in self.__slots__}
        return {**data, "events": self.events, "bad_lines": [issue._asdict() for issue in self.bad_lines]}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> Self:
        values = {name: data[name] for name in cls.__slots__}
        return cls(**{**values, "bad_lines": [ReadIssue(**issue) for issue in data["bad_lines"]]})

    def to_json(self) -> str:
        """Returns the report as one line of JSON with sorted keys."""
        return json.dumps(self.to_data(), sort_keys=True)


@dataclass(frozen=True, slots=True)
class ReplayCheckpoint:
    """State of an interrupted replay.

    Attributes:
        request: Arguments of the replay; only an equal replay can continue it.
        place: Position in the source.
        report: Counts so far.
        states: States of the reflectors in order; None for a stateless one.
    """

    request: Mapping[str, Any]
    place: Any
    report: Mapping[str, Any]
    states: Sequence[Any]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Replaces an earlier checkpoint in one step."""
        temporary_path = f"{os.fspath(path)}.{os.getpid()}"
        data = {name: getattr(self, name) for name in self.__slots__}
        with open(temporary_path, "w", encoding="utf-8") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary_path, path)


def read_checkpoint(path: str | os.PathLike[str], request: Mapping[str, Any]) -> ReplayCheckpoint | None:
    """Returns the checkpoint of a replay, None if the file does not exist.

    Raises:
        SetupError: The file is invalid or belongs to another replay.
    """
    try:
        with open(path, encoding="utf-8") as file:
            checkpoint = ReplayCheckpoint(**json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise errors.SetupError(f"{os.fspath(path)} is not a replay checkpoint: {error}. Delete it.") from error
    recorded = checkpoint.request
    names = [_RENAMED_REFLECTORS.get(name, name) for name in recorded.get("reflectors", ())]
    if request not in (recorded, {**recorded, "reflectors": names}):
        raise errors.SetupError(
            f"{os.fspath(path)} belongs to another replay: its time, window, attribution or reflectors differ. "
            "Delete it, or use another path."
        )
    return checkpoint

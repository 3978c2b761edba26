"""What a replay hands to reflectors, and the contract of those."""

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
    """A decision with one measurement that came of it.

    Attributes:
        log: The decision.
        feedback: None: nothing has arrived yet.
        meta: Left empty by the replayer; free for others.
    """

    log: LogEntry
    feedback: Feedback | None = None
    meta: dict[str, Any] | None = None


class Reflector(Protocol):
    """Learns from events.

    Called by one thread, event after event, in the order of registration. Not thread-safe unless it says so. What it
    raises is counted and logged, and neither stops the replay nor keeps the event from the next reflector.
    """

    def on_event(self, event: ReplayEvent, /) -> object: ...


@runtime_checkable
class Stateful(Protocol):
    """A reflector whose state a checkpoint can hold."""

    def state(self) -> Any:
        """Returns all it has learned, as plain data."""

    def restore(self, state: Any) -> None:
        """Takes up what `state` returned."""


MAX_BAD_LINES = 20
_RENAMED_REFLECTORS = {"Aggregator": "AggregatorReflector"}  # class names in checkpoints of Atoll 0.1.0


@dataclass(slots=True)
class ReplayReport:
    """Counts of a replay; the same log gives the same bytes.

    Attributes:
        entries: Decisions that were read.
        filtered: Of these, kept out by the filter.
        paired: Events with feedback.
        pending: Events without any: decisions whose feedback is not there yet.
        errors: How often each reflector raised.
        first_errors: What each of them raised first.
        issues: Lines that could not be read, in all; `bad_lines` names the first of them.
        in_progress: Files whose last line is still being written.
        is_stopped: It was told to stop before the end.
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
        """How many events each reflector was handed."""
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
        """Returns the report on one line, its keys sorted."""
        return json.dumps(self.to_data(), sort_keys=True)


@dataclass(frozen=True, slots=True)
class ReplayCheckpoint:
    """All that a replay needs to go on.

    Attributes:
        request: What was replayed: another replay must not go on with it.
        place: Where the source is read on.
        report: The counts so far.
        states: Of the reflectors, in their order; None of one that keeps none.
    """

    request: Mapping[str, Any]
    place: Any
    report: Mapping[str, Any]
    states: Sequence[Any]

    def write(self, path: str | os.PathLike[str]) -> None:
        """Takes the place of an older one, whole or not at all."""
        temporary_path = f"{os.fspath(path)}.{os.getpid()}"
        data = {name: getattr(self, name) for name in self.__slots__}
        with open(temporary_path, "w", encoding="utf-8") as file:
            json.dump(data, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary_path, path)


def read_checkpoint(path: str | os.PathLike[str], request: Mapping[str, Any]) -> ReplayCheckpoint | None:
    """Returns the checkpoint of a replay, None if there is none yet.

    Raises:
        SetupError: It cannot be read, or belongs to another replay.
    """
    try:
        with open(path, encoding="utf-8") as file:
            checkpoint = ReplayCheckpoint(**json.load(file))
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, RecursionError) as error:
        raise errors.SetupError(f"{os.fspath(path)} is no checkpoint of a replay: delete it ({error}).") from error
    recorded = checkpoint.request
    names = [_RENAMED_REFLECTORS.get(name, name) for name in recorded.get("reflectors", ())]
    if request not in (recorded, {**recorded, "reflectors": names}):
        raise errors.SetupError(
            f"{os.fspath(path)} belongs to another replay (its window, attribution or reflectors differ): "
            "delete it, or name another."
        )
    return checkpoint

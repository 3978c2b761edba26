"""What a replay did."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from atoll.governed.logs.source import ReadIssue

MAX_BAD_LINES = 20


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

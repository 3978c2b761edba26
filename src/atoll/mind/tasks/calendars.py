"""Calendar scheduling of Natural Plan: a time for one meeting that fits all calendars."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from atoll import errors
from atoll.mind.actions import Action, Task
from atoll.mind.tasks import plan_text
from atoll.mind.tasks.problem import PlanError, PlanEvaluation

_DAY = r"(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_REQUEST = re.compile(
    rf"schedule a meeting for (.+?) for (half an hour|an hour|one hour|\d+ minutes|[\d.]+ hours?) "
    rf"between the work hours of ({plan_text.CLOCK}) to ({plan_text.CLOCK}) on (?:either )?(.+?)\."
)
# One calendar: "NAME has meetings on Monday during 9:00 to 9:30, 10:00 to 11:00, Tuesday during 9:00 to 9:30;"
_CALENDAR = re.compile(
    r"^(\w[\w' -]*?) (?:has meetings|is busy|has blocked their calendar) on (.+?);?\s*$", re.MULTILINE
)
_RANGE = re.compile(rf"({_DAY}) during|({plan_text.CLOCK}) to ({plan_text.CLOCK})")
# Preferences of one participant: "NAME can not meet on Monday. Tuesday before 14:30."
_PREFERENCE = re.compile(
    r"(\w+) (?:would like to avoid more meetings|would rather not meet|do(?:es)? not want to meet|can ?not meet) on "
    rf"((?:{_DAY}(?: (?:before|after) {plan_text.CLOCK})?\.\s*)+)"
)
_LIMIT = re.compile(rf"({_DAY})(?: (before|after) ({plan_text.CLOCK}))?")
_EARLIEST = re.compile(r"earli?e?st availability")
_SLOT = re.compile(rf"({_DAY})\W{{1,4}}(?:[a-z]+ ){{0,2}}({plan_text.CLOCK}) ?(?:-|to|until|and) ?({plan_text.CLOCK})")
_EXAMPLES = re.compile(r"\s*Here are a few example tasks and solutions:\s*TASK:\s*")

PROPOSE = "propose"  # the role of an action
MIDNIGHT = 24 * 60
STEP_MINUTES = 30  # between the moves


@dataclass(frozen=True, slots=True)
class Slot:
    """Time on one day, in minutes of the day."""

    day: str
    start: int
    end: int

    def overlaps(self, other: "Slot") -> bool:
        return self.day == other.day and self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        return f"{self.day}, {plan_text.format_24_hours(self.start)} - {plan_text.format_24_hours(self.end)}"


@dataclass(frozen=True)
class Calendars:
    """One meeting to schedule, parsed from its text.

    Attributes:
        id: Id in the data.
        text: The task text.
        minutes: Length of the meeting.
        hours: Work hours of each possible day, in order.
        blocked: Times that a participant refuses: meetings and preferences.
        wants_earliest: Whether the participants want the earliest possible time.
    """

    id: str
    text: str
    minutes: int
    hours: tuple[Slot, ...]
    blocked: tuple[tuple[str, Slot], ...]
    wants_earliest: bool

    requires_all_moves = False
    target = "The score is minus the number of errors. 0 is perfect."
    max_score = 0.0
    plan_format = "Write one line with the day, the start and the end. Example:\n<plan>\nMonday, 14:30 - 15:00\n</plan>"
    questions = (
        "Which times are free in every calendar?",
        "Does the meeting have the required length?",
        "Does a participant want to avoid this day or time?",
    )

    @cached_property
    def moves(self) -> Sequence[Action]:
        """Allowed actions of a decision trace: the possible times, every half hour. A plan uses the first one."""
        return tuple(
            Task(PROPOSE, str(Slot(hours.day, start, start + self.minutes)))
            for hours in self.hours
            for start in range(hours.start, hours.end - self.minutes + 1, STEP_MINUTES)
        )

    @cached_property
    def earliest(self) -> Slot | None:
        """The earliest time that satisfies all participants."""
        return next(iter(self._find_free_slots()), None)

    def format_plan(self, trace: Sequence[Action]) -> str:
        return next((action.goal for action in trace if isinstance(action, Task)), "")

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        slot = parse_slot(plan)
        return (Task(PROPOSE, str(slot)),) if slot is not None else ()

    def parse_plan(self, response: str) -> str | None:
        """Returns the last time in a response as canonical text, or None."""
        slot = parse_slot(response)
        return str(slot) if slot is not None else None

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Subtracts 1 per error; 0 is perfect. An unreadable plan loses 1 per participant and 3 more."""
        max_errors = len({name for name, _ in self.blocked}) + 3
        slot = parse_slot(plan)
        if slot is None:
            message = "The plan has no readable day, start and end."
            return PlanEvaluation(-float(max_errors), 0.0, False, (PlanError("format", message),))
        plan_errors = [*self._find_frame_errors(slot), *self._find_conflicts(slot)]
        if not plan_errors and self.wants_earliest and self.earliest is not None and self._is_later(slot):
            plan_errors.append(PlanError("late", f"An earlier time than {slot} is possible.", str(slot)))
        penalty = float(len(plan_errors))
        return PlanEvaluation(-penalty, max(0.0, 1 - penalty / max_errors), not plan_errors, tuple(plan_errors))

    def _find_frame_errors(self, slot: Slot) -> Iterator[PlanError]:
        """Yields the errors in day, length and work hours."""
        if slot.end - slot.start != self.minutes:
            message = f"The meeting takes {self.minutes} minutes, but {slot} has {slot.end - slot.start}."
            yield PlanError("length", message, str(slot))
        hours = next((hours for hours in self.hours if hours.day == slot.day), None)
        if hours is None:
            days = ", ".join(hours.day for hours in self.hours)
            yield PlanError("day", f"{slot.day} is not possible. Choose one of: {days}.", str(slot))
        elif slot.start < hours.start or slot.end > hours.end:
            yield PlanError("hours", f"{slot} is outside the work hours of {hours}.", str(slot))

    def _find_conflicts(self, slot: Slot) -> Iterator[PlanError]:
        """Yields one error per participant who refuses the time."""
        conflicts = {name: blocked for name, blocked in self.blocked if blocked.overlaps(slot)}
        for name, blocked in conflicts.items():
            yield PlanError("conflict", f"{slot} does not suit {name}, who is not available {blocked}.", str(slot))

    def _is_later(self, slot: Slot) -> bool:
        days = [hours.day for hours in self.hours]
        earliest = self.earliest
        return earliest is not None and (days.index(slot.day), slot.start) > (days.index(earliest.day), earliest.start)

    def _find_free_slots(self) -> Iterator[Slot]:
        """Yields the earliest free time after each end of a blocked time, in order."""
        for hours in self.hours:
            starts = {hours.start, *(blocked.end for _, blocked in self.blocked if blocked.day == hours.day)}
            for start in sorted(start for start in starts if hours.start <= start <= hours.end - self.minutes):
                slot = Slot(hours.day, start, start + self.minutes)
                if not any(blocked.overlaps(slot) for _, blocked in self.blocked):
                    yield slot


def from_text(id: str, text: str) -> Calendars:
    """Parses a meeting to schedule from its task text.

    Raises:
        SetupError: The text is not a calendar task.
    """
    request = _REQUEST.search(text)
    if request is None:
        raise errors.SetupError(f"{id} is not a readable calendar task: {text!r:.80}.")
    work_start, work_end = plan_text.parse_time(request[3]), plan_text.parse_time(request[4])
    hours = tuple(Slot(day, work_start, work_end) for day in re.findall(_DAY, request[5]))
    blocked = [(match[1], slot) for match in _CALENDAR.finditer(text) for slot in _parse_ranges(match[2])]
    for match in _PREFERENCE.finditer(text):
        blocked += [(match[1], _parse_limit(*limit)) for limit in _LIMIT.findall(match[2])]
    statement = _EXAMPLES.sub("\n\n", text).rpartition("SOLUTION:")[0].strip() or text
    return Calendars(id, statement, _parse_minutes(request[2]), hours, tuple(blocked), bool(_EARLIEST.search(text)))


def _parse_minutes(text: str) -> int:
    if text.startswith("half"):
        return 30
    number = float(match[0]) if (match := re.search(r"[\d.]+", text)) else 1.0
    return round(number if "minute" in text else 60 * number)


def _parse_ranges(text: str) -> Iterator[Slot]:
    day = ""
    for match in _RANGE.finditer(text):
        day = match[1] or day
        if match[2]:
            yield Slot(day, plan_text.parse_time(match[2]), plan_text.parse_time(match[3]))


def _parse_limit(day: str, side: str, time: str) -> Slot:
    return Slot(
        day,
        plan_text.parse_time(time) if side == "after" else 0,
        plan_text.parse_time(time) if side == "before" else MIDNIGHT,
    )


def parse_slot(plan: str) -> Slot | None:
    """Returns the last time in a plan."""
    matches = list(_SLOT.finditer(plan_text.normalize(plan)))
    if not matches:
        return None
    return Slot(matches[-1][1], plan_text.parse_time(matches[-1][2]), plan_text.parse_time(matches[-1][3]))

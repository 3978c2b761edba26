"""Meeting planning of Natural Plan: meet as many friends as possible in a day, each in a time window."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from atoll import errors
from atoll.mind.actions import Action, Task
from atoll.mind.tasks import clock
from atoll.mind.tasks.problem import PlanError, PlanEvaluation

_DISTANCE = re.compile(r"^(.+?) to (.+?): (\d+)\.?$", re.MULTILINE)
_ARRIVAL = re.compile(rf"You arrive at (.+?) at ({clock.CLOCK})")
_FRIEND = re.compile(
    rf"(\w[\w' ]*?) will be at (.+?) from ({clock.CLOCK}) to ({clock.CLOCK})\. "
    r"You'd like to meet \1 for a minimum of (\d+) minutes"
)
_TRAVEL = re.compile(r"You travel to (.+?) in (\d+) minutes")
_WAIT = re.compile(rf"You wait until ({clock.CLOCK})")
# The name is bounded. Otherwise a line with many "You meet" takes quadratic time.
_MEET = re.compile(rf"You meet (.{{1,100}}?) for (\d++) minutes from ({clock.CLOCK}) to ({clock.CLOCK})")

_ANSWER_RULE = "Your response should start with 'SOLUTION:'."

MEET = "meet"  # the role of an action
FORMAT_PENALTY, CONFLICT_PENALTY = 10.0, 2.0  # the penalties of the paper; a valid meeting earns 1


@dataclass(frozen=True, slots=True)
class Friend:
    """A friend with location, time window in minutes of the day, and minimal duration."""

    name: str
    location: str
    start: int
    end: int
    min_minutes: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """A meeting in a plan, in minutes of the day, with your location at that time."""

    name: str
    location: str
    start: int
    end: int


@dataclass(frozen=True)
class Day:
    """One day to plan, parsed from its text."""

    id: str
    text: str
    start_location: str
    start_time: int
    friends: Mapping[str, Friend]
    travel_minutes: Mapping[tuple[str, str], int]

    requires_all_moves = False
    plan_format = (
        "Write one sentence a line, in order:\nYou start at A at 9:00AM.\nYou travel to B in 12 minutes and arrive at "
        "9:12AM.\nYou wait until 10:00AM.\nYou meet NAME for 45 minutes from 10:00AM to 10:45AM."
    )
    questions = (
        "Whose window closes first, and who can be met on the way there?",
        "Where is time lost by waiting, and who could be met meanwhile?",
        "Who must be left out so that more others can be met?",
    )

    @cached_property
    def moves(self) -> Sequence[Action]:
        """Allowed actions of a decision trace, each at most once."""
        return tuple(Task(MEET, name) for name in self.friends)

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the plan of a trace. Each meeting starts as early as possible and is as short as allowed."""
        now, location = self.start_time, self.start_location
        lines = [f"You start at {location} at {clock.format_time(now)}."]
        for action in trace:
            friend = self.friends.get(action.goal) if isinstance(action, Task) else None
            if friend is None:
                continue
            if friend.location != location:
                travel = self.travel_minutes.get((location, friend.location), 0)
                now, location = now + travel, friend.location
                lines.append(f"You travel to {location} in {travel} minutes and arrive at {clock.format_time(now)}.")
            if now < friend.start:
                now = friend.start
                lines.append(f"You wait until {clock.format_time(now)}.")
            end = now + friend.min_minutes
            window = f"from {clock.format_time(now)} to {clock.format_time(end)}"
            lines.append(f"You meet {friend.name} for {friend.min_minutes} minutes {window}.")
            now = end
        return "\n".join(lines)

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions of a plan: its friends, in order."""
        return tuple(Task(MEET, match[1]) for match in _MEET.finditer(plan))

    def parse_plan(self, response: str) -> str | None:
        """Returns the plan in a response, one step per line, or None."""
        text = response.rpartition("SOLUTION:")[2] if "SOLUTION:" in response else response
        steps = [step.strip() for step in re.split(r"(?<=\.)\s+", text.strip())]
        plan_lines = [f"Y{step[1:]}" for step in steps if step.startswith(("You ", "you "))]
        return "\n".join(plan_lines) if plan_lines and _MEET.search("\n".join(plan_lines)) else None

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Adds 1 per valid meeting, subtracts 2 per invalid one, and 10 for an unreadable plan."""
        meetings, plan_errors = self._simulate(plan)
        if not meetings:
            format_errors = (PlanError("format", "The plan has no readable meetings.", weight=FORMAT_PENALTY),)
            return PlanEvaluation(-FORMAT_PENALTY, 0.0, False, format_errors)
        failed_names = {plan_error.goal for plan_error in plan_errors}
        met = {
            meeting.name for meeting in meetings if meeting.name in self.friends and meeting.name not in failed_names
        }
        score = len(met) - sum(plan_error.weight for plan_error in plan_errors)
        unmet = [name for name in self.friends if name not in met]
        notes = [f"{len(met)} of {len(self.friends)} friends are met."]
        notes += [f"Not met: {', '.join(unmet)}."] if unmet else []
        max_penalty = CONFLICT_PENALTY * len(self.friends)
        progress = max(0.0, (score + max_penalty) / (len(self.friends) + max_penalty))
        contradiction = sum(plan_error.kind == "time" for plan_error in plan_errors) / len(meetings)
        return PlanEvaluation(
            score, progress, not unmet and not plan_errors, tuple(plan_errors), min(1.0, contradiction), tuple(notes)
        )

    def count_met(self, plan: str) -> int:
        """Returns the number of friends with a valid meeting."""
        meetings, plan_errors = self._simulate(plan)
        failed_names = {plan_error.goal for plan_error in plan_errors}
        return len(
            {meeting.name for meeting in meetings if meeting.name in self.friends and meeting.name not in failed_names}
        )

    def _simulate(self, plan: str) -> tuple[list[Meeting], list[PlanError]]:
        """Follows the steps of a plan and collects the errors."""
        now, location = self.start_time, self.start_location
        meetings, plan_errors, met = list[Meeting](), list[PlanError](), set[str]()
        for line in plan.splitlines():
            if line.startswith("You travel") and (match := _TRAVEL.match(line)):
                travel = self.travel_minutes.get((location, match[1]))
                if travel is None and match[1] != location:
                    message = f"The task has no travel time from {location} to {match[1]}."
                    plan_errors.append(PlanError("place", message, weight=CONFLICT_PENALTY))
                now, location = now + (travel or 0), match[1]
            elif line.startswith("You wait") and (match := _WAIT.match(line)):
                wait_end = clock.parse_time(match[1])
                if wait_end < now:
                    message = (
                        f"You cannot wait until {clock.format_time(wait_end)}: it is {clock.format_time(now)} then."
                    )
                    plan_errors.append(PlanError("time", message, weight=CONFLICT_PENALTY))
                now = max(now, wait_end)
            elif line.startswith("You meet") and (match := _MEET.match(line)):
                start, end = clock.parse_time(match[3]), clock.parse_time(match[4])
                end += 24 * 60 if end < start else 0
                meeting = Meeting(match[1], location, start, end)
                plan_errors += self._check_meeting(meeting, now, met)
                meetings.append(meeting)
                met.add(meeting.name)
                now = max(now, end)
        return meetings, plan_errors

    def _check_meeting(self, meeting: Meeting, now: int, met: set[str]) -> list[PlanError]:
        """Returns the first error of a meeting, if any."""
        friend = self.friends.get(meeting.name)
        planned_window = f"{clock.format_time(meeting.start)} to {clock.format_time(meeting.end)}"
        details: tuple[str, str, int | None]
        if friend is None:
            details = ("unknown", f"{meeting.name} is not among the friends.", None)
        elif meeting.name in met:
            details = ("twice", f"{meeting.name} is met more than once.", None)
        elif meeting.location != friend.location:
            details = ("place", f"{meeting.name} is at {friend.location}, but you are at {meeting.location}.", None)
        elif meeting.start < now:
            start_text, now_text = clock.format_time(meeting.start), clock.format_time(now)
            details = ("time", f"You cannot meet {meeting.name} at {start_text}: it is {now_text} then.", now)
        elif meeting.start < friend.start or meeting.end > friend.end:
            window = f"{clock.format_time(friend.start)} to {clock.format_time(friend.end)}"
            details = (
                "window",
                f"{meeting.name} is there from {window}, but the plan has {planned_window}.",
                friend.start,
            )
        elif meeting.end - meeting.start < friend.min_minutes:
            details = (
                "short",
                f"{meeting.name} wants {friend.min_minutes} minutes, but the plan has {planned_window}.",
                None,
            )
        else:
            return []
        kind, text, expected_time = details
        return [PlanError(kind, text, meeting.name, expected_time, weight=CONFLICT_PENALTY)]


def from_text(id: str, text: str) -> Day:
    """Parses a day from its task text.

    Raises:
        SetupError: The text is not a meeting task.
    """
    arrival = _ARRIVAL.search(text)
    friends = {
        match[1]: Friend(match[1], match[2], clock.parse_time(match[3]), clock.parse_time(match[4]), int(match[5]))
        for match in _FRIEND.finditer(text.partition("CONSTRAINTS:")[2])
    }
    minutes = {(match[1].strip(), match[2].strip()): int(match[3]) for match in _DISTANCE.finditer(text)}
    if arrival is None or not friends:
        raise errors.SetupError(f"{id} is not a readable meeting task: {text!r:.80}.")
    statement = text.replace(_ANSWER_RULE, "").strip()  # prompts have their own answer format
    return Day(id, statement, arrival[1], clock.parse_time(arrival[2]), dict(sorted(friends.items())), minutes)

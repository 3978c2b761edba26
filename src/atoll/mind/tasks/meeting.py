"""Meeting planning of Natural Plan: meet as many friends as possible in a day, each in a time window."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from atoll import errors
from atoll.mind.actions import Action, Task
from atoll.mind.tasks.plan_text import CLOCK, format_time, normalize, parse_time
from atoll.mind.tasks.problem import PlanError, PlanEvaluation

_DISTANCE = re.compile(r"^(.+?) to (.+?): (\d+)\.?$", re.MULTILINE)
_ARRIVAL = re.compile(rf"You arrive at (.+?) at ({CLOCK})")
_FRIEND = re.compile(
    rf"(\w[\w' ]*?) will be at (.+?) from ({CLOCK}) to ({CLOCK})\. "
    r"You'd like to meet \1 for a minimum of (\d+) minutes"
)
# The names are bounded. Otherwise a line with many "You meet" takes quadratic time.
_END = r"(?= in\b| for\b| from\b| and\b| at\b| by\b| until\b| \(|[.,;:()|]|$)"
_TRAVEL = re.compile(rf"\b(?:[Tt]ravel|[Gg]o|[Ww]alk|[Hh]ead|[Dd]rive|[Mm]ove)(?:ing)? to (.{{1,100}}?){_END}")
_WAIT = re.compile(rf"\b[Ww]ait\b.{{0,60}}?\b(?:until|to|till) ({CLOCK})")
_MEET = re.compile(rf"\b[Mm]eet(?:ing)? (?:with )?(.{{1,100}}?){_END}")
_PLACE = re.compile(rf"\bat (?!\d)(.{{1,100}}?){_END}")
_TIMES = re.compile(rf"({CLOCK}) ?(?:-|to|until|till) ?({CLOCK})")
_STEP_END = re.compile(r"(?<=[.;])\s+(?=\S)|\n")
_MAX_STEP_CHARS = 400
_MAX_FRIENDS_OF_BOUND = 12

_ANSWER_RULE = "Your response should start with 'SOLUTION:'."

TRAVEL, WAIT = "travel", "wait"
MEET = "meet"  # also the role of an action
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


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a plan: the way to a place, a wait, or a meeting.

    Attributes:
        kind: `TRAVEL`, `WAIT` or `MEET`.
        goal: Place or friend.
        start: Start of a meeting.
        end: Arrival, or the end of a wait or a meeting.
        minutes: Travel time of the task; None if it has none.
    """

    kind: str
    goal: str = ""
    start: int = 0
    end: int = 0
    minutes: int | None = None

    def __str__(self) -> str:
        if self.kind == TRAVEL:
            way = f" in {self.minutes} minutes and arrive at {format_time(self.end)}" if self.minutes else ""
            return f"You travel to {self.goal}{way}."
        if self.kind == WAIT:
            return f"You wait until {format_time(self.end)}."
        length, window = (self.end - self.start, f"{format_time(self.start)} to {format_time(self.end)}")
        return f"You meet {self.goal} for {length} minutes from {window}."


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
    target = (
        "The score is 1 for each friend whom you meet as required, and -2 for each impossible meeting. A plan is "
        "perfect if it meets as many friends as possible."
    )
    plan_format = (
        "Write one sentence per line, in order. Every line has one of the four forms of this example:\n<plan>\n"
        "You start at Old Harbor at 9:00AM.\nYou travel to Castle Gate in 12 minutes and arrive at 9:12AM.\n"
        "You wait until 10:00AM.\nYou meet Xenia for 45 minutes from 10:00AM to 10:45AM.\n</plan>"
    )
    is_solved_at_max_score = False  # the LLM is not told how many friends can be met
    questions = (
        "Whose window closes first, and who can be met on the way there?",
        "Where is time lost by waiting, and who could be met meanwhile?",
        "Who must be left out so that more others can be met?",
    )

    @cached_property
    def moves(self) -> Sequence[Action]:
        """Allowed actions of a decision trace, each at most once."""
        return tuple(Task(MEET, name) for name in self.friends)

    @cached_property
    def locations(self) -> frozenset[str]:
        """All places of the task."""
        travel_places = (place for pair in self.travel_minutes for place in pair)
        return frozenset((self.start_location, *travel_places, *(friend.location for friend in self.friends.values())))

    @cached_property
    def max_score(self) -> float | None:
        """Largest number of friends who can be met; None for too many friends. Tries all orders by subsets."""
        if len(self.friends) > _MAX_FRIENDS_OF_BOUND:
            return None
        friends = list(self.friends.values())
        # Earliest end of meetings with a set of friends, the last one at the given index.
        ends: dict[tuple[int, int], int] = {}
        reached, best = [(0, -1, self.start_time)], 0
        while reached:
            best, ends = best + 1, {}
            for met, last, now in reached:
                location = friends[last].location if last >= 0 else self.start_location
                for index, friend in enumerate(friends):
                    travel = 0 if friend.location == location else self.travel_minutes.get((location, friend.location))
                    if met >> index & 1 or travel is None:
                        continue
                    end = max(now + travel, friend.start) + friend.min_minutes
                    key = (met | 1 << index, index)
                    if end <= friend.end and end < ends.get(key, end + 1):
                        ends[key] = end
            reached = [(met, last, end) for (met, last), end in ends.items()]
        return float(best - 1)

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the plan of a trace. Each meeting starts as early as possible and is as short as allowed."""
        now, location, steps = self.start_time, self.start_location, list[Step]()
        for action in trace:
            friend = self.friends.get(action.goal) if isinstance(action, Task) else None
            if friend is None:
                continue
            if friend.location != location:
                minutes = self.travel_minutes.get((location, friend.location), 0)
                now, location = now + minutes, friend.location
                steps.append(Step(TRAVEL, location, end=now, minutes=minutes))
            if now < friend.start:
                now = friend.start
                steps.append(Step(WAIT, end=now))
            steps.append(Step(MEET, friend.name, now, now + friend.min_minutes))
            now += friend.min_minutes
        return self._format_steps(steps)

    def _format_steps(self, steps: Sequence["Step"]) -> str:
        start = f"You start at {self.start_location} at {format_time(self.start_time)}."
        return "\n".join([start, *map(str, steps)])

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions of a plan: its friends, in order."""
        return tuple(Task(MEET, step.goal) for step in self._read_steps(plan) if step.kind == MEET)

    def parse_plan(self, response: str) -> str | None:
        """Returns the plan in a response, one step per line, or None."""
        steps = self._read_steps(response)
        return self._format_steps(steps) if any(step.kind == MEET for step in steps) else None

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

    def _read_steps(self, plan: str) -> list["Step"]:
        """Returns the steps of a plan. A meeting that names another place implies the way there."""
        text = normalize(plan.rpartition("SOLUTION:")[2])
        steps, now, location = list[Step](), self.start_time, self.start_location
        for part in _STEP_END.split(text):
            sentence = part[:_MAX_STEP_CHARS].rstrip(". ")
            times, met = _TIMES.search(sentence), _MEET.search(sentence)
            travel = _TRAVEL.search(sentence)
            goal = travel[1] if travel else ""
            if met and times:
                places = [place for place in _PLACE.findall(sentence) if place in self.locations]
                goal = places[-1] if places and places[-1] != location else ""
            if goal:
                minutes = self.travel_minutes.get((location, goal))
                now, location = now + (minutes or 0), goal
                steps.append(Step(TRAVEL, goal, end=now, minutes=minutes))
            if met and times:
                steps.append(Step(MEET, met[1], parse_time(times[1]), parse_time(times[2])))
                now = max(now, steps[-1].end)
            elif not goal and (waiting := _WAIT.search(sentence)):
                steps.append(Step(WAIT, end=parse_time(waiting[1])))
                now = max(now, steps[-1].end)
        return steps

    def _simulate(self, plan: str) -> tuple[list[Meeting], list[PlanError]]:
        """Follows the steps of a plan and collects the errors."""
        now, location = self.start_time, self.start_location
        meetings, plan_errors, met = list[Meeting](), list[PlanError](), set[str]()
        for step in self._read_steps(plan):
            if step.kind == TRAVEL:
                if step.minutes is None and step.goal != location:
                    message = f"The task has no travel time from {location} to {step.goal}."
                    plan_errors.append(PlanError("place", message, weight=CONFLICT_PENALTY))
                now, location = now + (step.minutes or 0), step.goal
            elif step.kind == WAIT:
                if step.end < now:
                    message = f"You cannot wait until {format_time(step.end)}: it is {format_time(now)} then."
                    plan_errors.append(PlanError("time", message, weight=CONFLICT_PENALTY))
                now = max(now, step.end)
            else:
                end = step.end + (24 * 60 if step.end < step.start else 0)
                meeting = Meeting(step.goal, location, step.start, end)
                plan_errors += self._check_meeting(meeting, now, met)
                meetings.append(meeting)
                met.add(meeting.name)
                now = max(now, end)
        return meetings, plan_errors

    def _check_meeting(self, meeting: Meeting, now: int, met: set[str]) -> list[PlanError]:
        """Returns the first error of a meeting, if any."""
        friend = self.friends.get(meeting.name)
        planned_window = f"{format_time(meeting.start)} to {format_time(meeting.end)}"
        details: tuple[str, str, int | None]
        if friend is None:
            details = ("unknown", f"{meeting.name} is not among the friends.", None)
        elif meeting.name in met:
            details = ("twice", f"{meeting.name} is met more than once.", None)
        elif meeting.location != friend.location:
            details = ("place", f"{meeting.name} is at {friend.location}, but you are at {meeting.location}.", None)
        elif meeting.start < now:
            start_text, now_text = format_time(meeting.start), format_time(now)
            details = ("time", f"You cannot meet {meeting.name} at {start_text}: it is {now_text} then.", now)
        elif meeting.start < friend.start or meeting.end > friend.end:
            window = f"{format_time(friend.start)} to {format_time(friend.end)}"
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
        match[1]: Friend(match[1], match[2], parse_time(match[3]), parse_time(match[4]), int(match[5]))
        for match in _FRIEND.finditer(text.partition("CONSTRAINTS:")[2])
    }
    minutes = {(match[1].strip(), match[2].strip()): int(match[3]) for match in _DISTANCE.finditer(text)}
    if arrival is None or not friends:
        raise errors.SetupError(f"{id} is not a readable meeting task: {text!r:.80}.")
    statement = text.replace(_ANSWER_RULE, "").strip()  # prompts have their own answer format
    return Day(id, statement, arrival[1], parse_time(arrival[2]), dict(sorted(friends.items())), minutes)

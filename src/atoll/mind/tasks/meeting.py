"""Natural Plan's meetings: as many friends as possible in a day, each at a place, in a window, for a while."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from atoll import errors
from atoll.mind.actions import Action, Task
from atoll.mind.tasks.problem import Fault, Verdict

_CLOCK = r"(\d{1,2}):(\d{2})\s?([AP]M)"
_DISTANCE = re.compile(r"^(.+?) to (.+?): (\d+)\.?$", re.MULTILINE)
_ARRIVAL = re.compile(rf"You arrive at (.+?) at ({_CLOCK})")
_FRIEND = re.compile(
    rf"(\w[\w' ]*?) will be at (.+?) from ({_CLOCK}) to ({_CLOCK})\. "
    r"You'd like to meet \1 for a minimum of (\d+) minutes"
)
_TRAVEL = re.compile(r"You travel to (.+?) in (\d+) minutes")
_WAIT = re.compile(rf"You wait until ({_CLOCK})")
# A bounded name: else a line that says "You meet" many times is read to its end from each of them.
_MEET = re.compile(rf"You meet (.{{1,100}}?) for (\d++) minutes from ({_CLOCK}) to ({_CLOCK})")

MEET = "meet"  # the role of an action
BAD_FORMAT, CONFLICT = 10.0, 2.0  # the penalties of the paper; a valid meeting earns 1


@dataclass(frozen=True, slots=True)
class Friend:
    """Somebody to meet: where, from when to when in minutes of the day, and for how many minutes at least."""

    name: str
    place: str
    first: int
    last: int
    minutes: int


@dataclass(frozen=True, slots=True)
class Meeting:
    """A meeting as a plan tells it, in minutes of the day, and where one is then."""

    name: str
    place: str
    first: int
    last: int


@dataclass(frozen=True)
class Day:
    """One day to plan, as far as its text tells."""

    id: str
    text: str
    start: str
    begins: int
    friends: Mapping[str, Friend]
    minutes: Mapping[tuple[str, str], int]

    uses_all = False
    form = (
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
        """What a decision trace may be made of, each once."""
        return tuple(Task(MEET, name) for name in self.friends)

    def write(self, trace: Sequence[Action]) -> str:
        """Returns the plan of a trace: everybody as early as possible and as short as allowed."""
        now, here = self.begins, self.start
        lines = [f"You start at {here} at {clock(now)}."]
        for each in trace:
            friend = self.friends.get(each.goal) if isinstance(each, Task) else None
            if friend is None:
                continue
            if friend.place != here:
                took = self.minutes.get((here, friend.place), 0)
                now, here = now + took, friend.place
                lines.append(f"You travel to {here} in {took} minutes and arrive at {clock(now)}.")
            if now < friend.first:
                now = friend.first
                lines.append(f"You wait until {clock(now)}.")
            until = now + friend.minutes
            lines.append(f"You meet {friend.name} for {friend.minutes} minutes from {clock(now)} to {clock(until)}.")
            now = until
        return "\n".join(lines)

    def trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions in a plan: its friends, in order."""
        return tuple(Task(MEET, found[1]) for found in _MEET.finditer(plan))

    def parse(self, reply: str) -> str | None:
        """Returns the plan in a reply, a step a line, or None if there is none."""
        text = reply.rpartition("SOLUTION:")[2] if "SOLUTION:" in reply else reply
        steps = [each.strip() for each in re.split(r"(?<=\.)\s+", text.strip())]
        kept = [f"Y{each[1:]}" for each in steps if each.startswith(("You ", "you "))]
        return "\n".join(kept) if kept and _MEET.search("\n".join(kept)) else None

    def judge(self, plan: str) -> Verdict:
        """Earns 1 for each valid meeting and loses 2 for each that is none; a plan that cannot be read loses 10."""
        meetings, faults = self._walk(plan)
        if not meetings:
            told = (Fault("format", "There is no plan with meetings to be read.", weight=BAD_FORMAT),)
            return Verdict(-BAD_FORMAT, 0.0, False, told)
        wrong = {each.about for each in faults}
        met = {each.name for each in meetings if each.name in self.friends and each.name not in wrong}
        score = len(met) - sum(each.weight for each in faults)
        left = [name for name in self.friends if name not in met]
        notes = [f"{len(met)} of {len(self.friends)} friends are met."]
        notes += [f"Not met: {', '.join(left)}."] if left else []
        most = CONFLICT * len(self.friends)
        progress = max(0.0, (score + most) / (len(self.friends) + most))
        torn = sum(each.kind == "time" for each in faults) / len(meetings)
        return Verdict(score, progress, not left and not faults, tuple(faults), min(1.0, torn), tuple(notes))

    def num_met(self, plan: str) -> int:
        """Returns how many friends are met as agreed before anything is wrong with the plan."""
        meetings, faults = self._walk(plan)
        wrong = {each.about for each in faults}
        return len({each.name for each in meetings if each.name in self.friends and each.name not in wrong})

    def _walk(self, plan: str) -> tuple[list[Meeting], list[Fault]]:
        """Does what the steps of a plan say, and notes what cannot be."""
        now, here = self.begins, self.start
        meetings, faults, met = list[Meeting](), list[Fault](), set[str]()
        for line in plan.splitlines():
            if line.startswith("You travel") and (found := _TRAVEL.match(line)):
                took = self.minutes.get((here, found[1]))
                if took is None and found[1] != here:
                    faults.append(Fault("place", f"There is no way from {here} to {found[1]}.", weight=CONFLICT))
                now, here = now + (took or 0), found[1]
            elif line.startswith("You wait") and (found := _WAIT.match(line)):
                until = minute(found[1])
                if until < now:
                    told = f"You cannot wait until {clock(until)}: it is {clock(now)} then."
                    faults.append(Fault("time", told, weight=CONFLICT))
                now = max(now, until)
            elif line.startswith("You meet") and (found := _MEET.match(line)):
                first, last = minute(found[3]), minute(found[7])
                last += 24 * 60 if last < first else 0
                said = Meeting(found[1], here, first, last)
                faults += self._check(said, now, met)
                meetings.append(said)
                met.add(said.name)
                now = max(now, last)
        return meetings, faults

    def _check(self, said: Meeting, now: int, met: set[str]) -> list[Fault]:
        """Says what is wrong with a meeting: one thing, the first."""
        friend = self.friends.get(said.name)
        when = f"{clock(said.first)} to {clock(said.last)}"
        told: tuple[str, str, int | None]
        if friend is None:
            told = ("unknown", f"Nobody asked to meet {said.name}.", None)
        elif said.name in met:
            told = ("twice", f"{said.name} is met more than once.", None)
        elif said.place != friend.place:
            told = ("place", f"{said.name} is at {friend.place}, but you are at {said.place}.", None)
        elif said.first < now:
            told = ("time", f"You cannot meet {said.name} at {clock(said.first)}: it is {clock(now)} then.", now)
        elif said.first < friend.first or said.last > friend.last:
            window = f"{clock(friend.first)} to {clock(friend.last)}"
            told = ("window", f"{said.name} is there from {window}, but the plan has {when}.", friend.first)
        elif said.last - said.first < friend.minutes:
            told = ("short", f"{said.name} wants {friend.minutes} minutes, but the plan has {when}.", None)
        else:
            return []
        kind, text, minute_of = told
        return [Fault(kind, text, said.name, minute_of, weight=CONFLICT)]


def from_text(id: str, text: str) -> Day:
    """Reads a day from the words of its task.

    Raises:
        SetupError: They are no day's.
    """
    arrival = _ARRIVAL.search(text)
    friends = {
        found[1]: Friend(found[1], found[2], minute(found[3]), minute(found[7]), int(found[11]))
        for found in _FRIEND.finditer(text.partition("CONSTRAINTS:")[2])
    }
    minutes = {(found[1].strip(), found[2].strip()): int(found[3]) for found in _DISTANCE.finditer(text)}
    if arrival is None or not friends:
        raise errors.SetupError(f"{id} is no day of meetings that can be read: {text!r:.80}.")
    return Day(id, text, arrival[1], minute(arrival[2]), dict(sorted(friends.items())), minutes)


def minute(text: str) -> int:
    """Returns a time of day, such as 9:05AM, in minutes."""
    found = re.search(_CLOCK, text)
    if found is None:
        return 0
    return (int(found[1]) % 12 + (12 if found[3] == "PM" else 0)) * 60 + int(found[2])


def clock(minutes: int) -> str:
    """Returns minutes of the day as a time, such as 9:05AM."""
    hour = minutes // 60 % 24
    return f"{hour % 12 or 12}:{minutes % 60:02d}{'AM' if hour < 12 else 'PM'}"

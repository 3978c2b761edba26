"""Natural Plan's trips: an order of cities whose stays, dates and direct flights must fit."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from atoll import errors
from atoll.mind.actions import Action, Task
from atoll.mind.tasks.problem import Fault, Verdict

_LENGTH = re.compile(r"visit (\d+) European cities for (\d+) days in total")
_STAYS = (
    re.compile(r"spend (\d+) days? in ([^.]+?)\.(?:\s|$)"),
    re.compile(r"(?:stay in|visit) ([^.]+?) for (\d+) days?\.(?:\s|$)"),
)
_DATES = re.compile(r"(?:between|[Ff]rom|[Dd]uring) day (\d+) (?:and|to) day (\d+)")
_FLIGHTS = re.compile(r"direct flights:\n(.*?)(?:\n|$)")
_VISIT = re.compile(
    r"\*{0,2}Day (\d+)(?:-(\d+))?:?\*{0,2}:?\s*(?:Arriving in [^.\n]*? and )?[Vv]isit ([^.\n]+?) for (\d+) day"
)

VISIT = "visit"  # the role of an action


@dataclass(frozen=True, slots=True)
class Stay:
    """Days in a city, the first and the last included; a day of a flight belongs to both cities."""

    city: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"Day {self.first}-{self.last}" if self.last > self.first else f"Day {self.first}"


@dataclass(frozen=True)
class Trip:
    """One trip to plan, as far as its text tells.

    Attributes:
        id: Its name in the data.
        text: The task in words.
        num_days: How long all of it takes.
        days: How long to stay in each city.
        dates: Cities that one must be in from the first to the last of some days.
        flights: Pairs of cities with a direct flight from the first to the second.
    """

    id: str
    text: str
    num_days: int
    days: dict[str, int]
    dates: dict[str, tuple[int, int]]
    flights: frozenset[tuple[str, str]]

    uses_all = True
    form = (
        "Write one line for every stay and every flight, in order:\n"
        "**Day 1-3:** Arriving in A and visit A for 3 days.\n**Day 3:** Fly from A to B.\n"
        "**Day 3-7:** Visit B for 5 days.\nThe day of a flight belongs to both cities."
    )
    questions = (
        "Which cities have fixed days, and what order do those days force?",
        "Which cities have few direct flights, and what must come before and after them?",
        "Does every stay begin on the day on which the one before it ends?",
    )

    @cached_property
    def moves(self) -> Sequence[Action]:
        """What a decision trace may be made of, each once."""
        return tuple(Task(VISIT, city) for city in self.days)

    def write(self, trace: Sequence[Action]) -> str:
        """Returns the plan of a trace in the words of the task; every stay is as long as is asked."""
        return write(self._chained([each.goal for each in trace if isinstance(each, Task)]))

    def trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions in a plan: its cities, in order."""
        return tuple(Task(VISIT, stay.city) for stay in read(plan))

    def parse(self, reply: str) -> str | None:
        """Returns the plan in a reply in canonical words, or None if there is none."""
        stays = read(reply)
        return write(stays) if stays else None

    def judge(self, plan: str) -> Verdict:
        """Counts what is wrong: 0 is perfect, every fault costs 1 (a plan that cannot be read 2 per city)."""
        stays = read(plan)
        if not stays:
            worst = -2.0 * len(self.days)
            return Verdict(worst, 0.0, False, (Fault("format", "There is no plan of days and cities to be read."),))
        faults = [*self._missing(stays), *self._broken(stays), *self._undated(stays), *self._unlinked(stays)]
        most = 2 * len(self.days) + len(self.dates)
        wrong = sum(each.weight for each in faults)
        torn = sum(each.kind in ("chain", "length") for each in faults)
        return Verdict(-wrong, max(0.0, 1 - wrong / most), not faults, tuple(faults), torn / len(stays))

    def _chained(self, cities: Sequence[str]) -> list[Stay]:
        stays, day = list[Stay](), 1
        for city in cities:
            stays.append(Stay(city, day, day + self.days.get(city, 1) - 1))
            day = stays[-1].last
        return stays

    def _missing(self, stays: Sequence[Stay]) -> list[Fault]:
        seen = [stay.city for stay in stays]
        lost = [Fault("missing", f"{city} is not visited.", city) for city in self.days if city not in seen]
        twice = dict.fromkeys(city for city in seen if seen.count(city) > 1)
        lost += [Fault("twice", f"{city} is visited more than once.", city) for city in twice]
        return lost + [
            Fault("unknown", f"{city} is not among the cities of the trip.", city)
            for city in dict.fromkeys(seen)
            if city not in self.days
        ]

    def _broken(self, stays: Sequence[Stay]) -> list[Fault]:
        found = list[Fault]()
        day = 1
        for stay in stays:
            if stay.first != day:
                found.append(Fault("chain", f"{stay} in {stay.city} should begin on day {day}.", stay.city))
            length, wanted = stay.last - stay.first + 1, self.days.get(stay.city)
            if wanted is not None and length != wanted:
                found.append(Fault("length", f"The stay in {stay.city} is {length} days, not {wanted}.", stay.city))
            day = stay.last
        if day != self.num_days:
            found.append(Fault("length", f"The trip ends on day {day}, not on day {self.num_days}."))
        return found

    def _undated(self, stays: Sequence[Stay]) -> list[Fault]:
        found = list[Fault]()
        for stay in stays:
            first, last = self.dates.get(stay.city, (stay.first, stay.last))
            if not (stay.first <= first and last <= stay.last):
                said = f"You must be in {stay.city} from day {first} to day {last}, but the plan has {stay}."
                found.append(Fault("date", said, stay.city, first))
        return found

    def _unlinked(self, stays: Sequence[Stay]) -> list[Fault]:
        pairs = itertools.pairwise(stays)
        return [
            Fault("flight", f"There is no direct flight from {one.city} to {other.city}.", one.city, other=other.city)
            for one, other in pairs
            if (one.city, other.city) not in self.flights
        ]


def from_text(id: str, text: str) -> Trip:
    """Reads a trip from the words of its task.

    Raises:
        SetupError: They are no trip's.
    """
    head, _, rest = text.partition("\n\n")
    total, listed = _LENGTH.search(head), _FLIGHTS.search(rest)
    days = {found[2]: int(found[1]) for found in _STAYS[0].finditer(head)}
    days |= {
        found[1]: int(found[2])
        for found in _STAYS[1].finditer(head)
        if not found[1].startswith(total[1] if total else " ")
    }
    if total is None or listed is None or len(days) != int(total[1]):
        raise errors.SetupError(f"{id} is no trip that can be read: {text!r:.80}.")
    dates = {}
    for sentence in re.split(r"(?<=\.)\s+", head):
        when = _DATES.search(sentence)
        city = next((each for each in sorted(days, key=len, reverse=True) if each in sentence), None)
        if when and city:
            dates[city] = int(when[1]), int(when[2])
    return Trip(id, text, int(total[2]), dict(sorted(days.items())), dates, _flights(listed[1]))


def _flights(listed: str) -> frozenset[tuple[str, str]]:
    pairs = set[tuple[str, str]]()
    for each in listed.rstrip(". ").split(", "):
        if each.startswith("from "):
            one, _, other = each.removeprefix("from ").partition(" to ")
            pairs.add((one, other))
        else:
            one, _, other = each.partition(" and ")
            pairs |= {(one, other), (other, one)}
    return frozenset(pairs)


def read(plan: str) -> list[Stay]:
    """Returns the stays that a plan tells of, in its order."""
    found = _VISIT.finditer(plan)
    return [Stay(each[3].strip(), int(each[1]), int(each[2] or each[1])) for each in found]


def write(stays: Sequence[Stay]) -> str:
    """Returns stays in the words of the task's solutions."""
    lines = list[str]()
    for place, stay in enumerate(stays):
        length = f"{stay.last - stay.first + 1} days"
        if place:
            lines.append(f"**Day {stay.first}:** Fly from {stays[place - 1].city} to {stay.city}.")
            lines.append(f"**{stay}:** Visit {stay.city} for {length}.")
        else:
            lines.append(f"**{stay}:** Arriving in {stay.city} and visit {stay.city} for {length}.")
    return "\n".join(lines)

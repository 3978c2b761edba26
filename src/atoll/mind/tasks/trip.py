"""Trip planning of Natural Plan: an order of cities that fits stays, dates and direct flights."""

import itertools
import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property

from atoll import errors
from atoll.mind.actions import Action, Task
from atoll.mind.tasks import plan_text
from atoll.mind.tasks.problem import PlanError, PlanEvaluation

_TRIP_LENGTH = re.compile(r"visit (\d+) European cities for (\d+) days in total")
_STAYS = (
    re.compile(r"spend (\d+) days? in ([^.]+?)\.(?:\s|$)"),
    re.compile(r"(?:stay in|visit) ([^.]+?) for (\d+) days?\.(?:\s|$)"),
)
_DATES = re.compile(r"(?:between|[Ff]rom|[Dd]uring) day (\d+) (?:and|to) day (\d+)")
_FLIGHTS = re.compile(r"direct flights:\n(.*?)(?:\n|$)")
# "Day 1-3:", "Days 1 to 3", "Day 3 -". The texts after two of them belong to the first.
_DAYS = re.compile(
    r"\b(?:Days?|days?(?= ?\d+ ?(?:-|to) ?\d)|DAYS?) ?(\d{1,3})(?: ?(?:-|to|through|until) ?(?:[Dd]ay ?)?(\d{1,3}))?"
    r" ?[]:.,)|-]* ?"
)
_CITY = r"([^\W\d_][^.,;:()|\n]{0,60}?)(?= for\b| and\b| from\b| with\b| until\b| to\b| - | \(|[.,;:()|]|$)"
_STAY = re.compile(
    rf"\b(?:[Vv]isit(?:ing)?|[Ss]tay(?:ing)?(?: in| at)?|[Ee]xplor(?:e|ing)|[Ss]pend(?:ing)? \d+ days? in) {_CITY}"
)
_PLACE = re.compile(rf"^(?:[Aa]rriv(?:e|ing|al) )?(?:[Ii]n |[Aa]t )?{_CITY}")
_LENGTH = re.compile(r"\bfor (\d{1,3}) days?\b")
_FLIGHT = re.compile(r"\b(?:[Ff]ly|[Ff]lying|[Ff]light|[Tt]ravel|[Dd]epart|[Ll]eave)\b")

VISIT = "visit"  # the role of an action


@dataclass(frozen=True, slots=True)
class Stay:
    """Days in a city, first and last included. A day of a flight belongs to both cities."""

    city: str
    first_day: int
    last_day: int

    def __str__(self) -> str:
        return f"Day {self.first_day}-{self.last_day}" if self.last_day > self.first_day else f"Day {self.first_day}"


@dataclass(frozen=True)
class Trip:
    """One trip to plan, parsed from its text.

    Attributes:
        id: Id in the data.
        text: The task text.
        num_days: Days of the whole trip.
        days: Days per city.
        dates: Required first and last day in some cities.
        flights: Pairs of cities with a direct flight from the first to the second.
    """

    id: str
    text: str
    num_days: int
    days: dict[str, int]
    dates: dict[str, tuple[int, int]]
    flights: frozenset[tuple[str, str]]

    requires_all_moves = True
    target = "The score is minus the number of errors. 0 is perfect."
    max_score = 0.0
    plan_format = (
        "Write one line for every stay and every flight, in order. The day of a flight belongs to both cities.\n"
        "Example with 3 days in Xanadu and 5 days in Utopia, which make 7 days in total:\n<plan>\n"
        "**Day 1-3:** Arriving in Xanadu and visit Xanadu for 3 days.\n**Day 3:** Fly from Xanadu to Utopia.\n"
        "**Day 3-7:** Visit Utopia for 5 days.\n</plan>"
    )
    questions = (
        "Which cities have fixed days, and what order do those days force?",
        "Which cities have few direct flights, and what must come before and after them?",
        "Does every stay begin on the day on which the one before it ends?",
    )

    @cached_property
    def moves(self) -> Sequence[Action]:
        """Allowed actions of a decision trace, each once."""
        return tuple(Task(VISIT, city) for city in self.days)

    def format_plan(self, trace: Sequence[Action]) -> str:
        """Returns the plan of a trace. Each stay has the required length."""
        return format_stays(self._chain_stays([action.goal for action in trace if isinstance(action, Task)]))

    def parse_trace(self, plan: str) -> tuple[Action, ...]:
        """Returns the decisions of a plan: its cities, in order."""
        return tuple(Task(VISIT, stay.city) for stay in parse_stays(plan, self.days))

    def parse_plan(self, response: str) -> str | None:
        """Returns the plan in a response as canonical text, or None."""
        stays = parse_stays(response, self.days)
        return format_stays(stays) if stays else None

    def evaluate(self, plan: str) -> PlanEvaluation:
        """Subtracts 1 per error; 0 is perfect. An unreadable plan loses 2 per city."""
        stays = parse_stays(plan, self.days)
        if not stays:
            min_score = -2.0 * len(self.days)
            return PlanEvaluation(
                min_score, 0.0, False, (PlanError("format", "The plan has no readable days and cities."),)
            )
        plan_errors = [
            *self._find_missing_cities(stays),
            *self._find_broken_stays(stays),
            *self._find_missed_dates(stays),
            *self._find_missing_flights(stays),
        ]
        max_errors = 2 * len(self.days) + len(self.dates)
        penalty = sum(plan_error.weight for plan_error in plan_errors)
        num_contradictions = sum(plan_error.kind in ("chain", "length") for plan_error in plan_errors)
        return PlanEvaluation(
            -penalty,
            max(0.0, 1 - penalty / max_errors),
            not plan_errors,
            tuple(plan_errors),
            num_contradictions / len(stays),
        )

    def _chain_stays(self, cities: Sequence[str]) -> list[Stay]:
        stays, day = list[Stay](), 1
        for city in cities:
            stays.append(Stay(city, day, day + self.days.get(city, 1) - 1))
            day = stays[-1].last_day
        return stays

    def _find_missing_cities(self, stays: Sequence[Stay]) -> list[PlanError]:
        visited = [stay.city for stay in stays]
        plan_errors = [
            PlanError("missing", f"{city} is not visited.", city) for city in self.days if city not in visited
        ]
        repeated = dict.fromkeys(city for city in visited if visited.count(city) > 1)
        plan_errors += [PlanError("twice", f"{city} is visited more than once.", city) for city in repeated]
        return plan_errors + [
            PlanError("unknown", f"{city} is not among the cities of the trip.", city)
            for city in dict.fromkeys(visited)
            if city not in self.days
        ]

    def _find_broken_stays(self, stays: Sequence[Stay]) -> list[PlanError]:
        plan_errors = list[PlanError]()
        day = 1
        for stay in stays:
            if stay.first_day != day:
                plan_errors.append(PlanError("chain", f"{stay} in {stay.city} should begin on day {day}.", stay.city))
            length, expected = stay.last_day - stay.first_day + 1, self.days.get(stay.city)
            if expected is not None and length != expected:
                plan_errors.append(
                    PlanError("length", f"The stay in {stay.city} is {length} days, not {expected}.", stay.city)
                )
            day = stay.last_day
        if day != self.num_days:
            plan_errors.append(PlanError("length", f"The trip ends on day {day}, not on day {self.num_days}."))
        return plan_errors

    def _find_missed_dates(self, stays: Sequence[Stay]) -> list[PlanError]:
        plan_errors = list[PlanError]()
        for stay in stays:
            first_day, last_day = self.dates.get(stay.city, (stay.first_day, stay.last_day))
            if not (stay.first_day <= first_day and last_day <= stay.last_day):
                message = f"You must be in {stay.city} from day {first_day} to day {last_day}, but the plan has {stay}."
                plan_errors.append(PlanError("date", message, stay.city, first_day))
        return plan_errors

    def _find_missing_flights(self, stays: Sequence[Stay]) -> list[PlanError]:
        pairs = itertools.pairwise(stays)
        return [
            PlanError(
                "flight",
                f"The task lists no direct flight from {stay.city} to {next_stay.city}.",
                stay.city,
                other_goal=next_stay.city,
            )
            for stay, next_stay in pairs
            if (stay.city, next_stay.city) not in self.flights
        ]


def from_text(id: str, text: str) -> Trip:
    """Parses a trip from its task text.

    Raises:
        SetupError: The text is not a trip task.
    """
    head, _, remaining = text.partition("\n\n")
    total, flight_list = _TRIP_LENGTH.search(head), _FLIGHTS.search(remaining)
    days = {match[2]: int(match[1]) for match in _STAYS[0].finditer(head)}
    days |= {
        match[1]: int(match[2])
        for match in _STAYS[1].finditer(head)
        if not match[1].startswith(total[1] if total else " ")
    }
    if total is None or flight_list is None or len(days) != int(total[1]):
        raise errors.SetupError(f"{id} is not a readable trip task: {text!r:.80}.")
    dates = {}
    for sentence in re.split(r"(?<=\.)\s+", head):
        days_match = _DATES.search(sentence)
        city = next((name for name in sorted(days, key=len, reverse=True) if name in sentence), None)
        if days_match and city:
            dates[city] = int(days_match[1]), int(days_match[2])
    return Trip(id, text, int(total[2]), dict(sorted(days.items())), dates, _parse_flights(flight_list[1]))


def _parse_flights(flight_list: str) -> frozenset[tuple[str, str]]:
    pairs = set[tuple[str, str]]()
    for entry in flight_list.rstrip(". ").split(", "):
        if entry.startswith("from "):
            origin, _, destination = entry.removeprefix("from ").partition(" to ")
            pairs.add((origin, destination))
        else:
            origin, _, destination = entry.partition(" and ")
            pairs |= {(origin, destination), (destination, origin)}
    return frozenset(pairs)


def parse_stays(plan: str, cities: Collection[str] = ()) -> list[Stay]:
    """Returns the stays of a plan, in its order.

    "Day 1: stay in Rome for 3 days" lasts three days. A line such as "Day 3-5: workshop in Rome" extends a stay there.

    Args:
        cities: The cities of the task, if they are known. A line that names one of them is about that city.
    """
    stays = list[Stay]()
    for line in plan_text.normalize(plan).split("\n"):
        matches = list(_DAYS.finditer(line))
        ends = [*(match.start() for match in matches[1:]), len(line)]
        for match, end in zip(matches, ends, strict=False):
            text = line[match.end() : end].strip()
            if not (city := _find_city(text, cities)):
                continue
            first_day, last_day = int(match[1]), int(match[2] or match[1])
            if not match[2] and (length := _LENGTH.search(text)):
                last_day = first_day + max(1, int(length[1])) - 1
            previous = stays[-1] if stays and not _STAY.search(text) else None
            if previous and previous.city == city and previous.first_day <= first_day <= previous.last_day + 1:
                stays[-1] = Stay(city, previous.first_day, max(last_day, previous.last_day))
            else:
                stays.append(Stay(city, first_day, last_day))
    return stays


def _find_city(text: str, cities: Collection[str]) -> str:
    """Returns the city of a stay from the words after its days; empty for a flight and for other text."""
    places = [str(place).strip() for place in _STAY.findall(text)]
    if not places and _FLIGHT.search(text):
        return ""
    for place in [*reversed(places), text]:
        if known := [city for city in cities if re.search(rf"\b{re.escape(city)}\b", place)]:
            return max(known, key=lambda city: (place.rfind(city), len(city)))
    if not places and not cities and len(text) < 60:
        places = [str(place).strip() for place in _PLACE.findall(text)]
    named = [place for place in places if not place[0].islower()]
    return named[-1] if named else ""


def format_stays(stays: Sequence[Stay]) -> str:
    """Returns stays in the format of the solutions."""
    lines = list[str]()
    for index, stay in enumerate(stays):
        length = f"{stay.last_day - stay.first_day + 1} days"
        if index:
            lines.append(f"**Day {stay.first_day}:** Fly from {stays[index - 1].city} to {stay.city}.")
            lines.append(f"**{stay}:** Visit {stay.city} for {length}.")
        else:
            lines.append(f"**{stay}:** Arriving in {stay.city} and visit {stay.city} for {length}.")
    return "\n".join(lines)

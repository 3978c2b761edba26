"""Generates problems in the format of Natural Plan and StegPoet, for tests, examples and runs without data."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from atoll.mind.actions import Task
from atoll.mind.tasks import calendars, meeting, stegpoet, trip
from atoll.mind.tasks.plan_text import format_24_hours, format_time

CITIES = (
    *("Alba", "Brno", "Cork", "Delft", "Evora", "Faro", "Graz", "Hvar"),
    *("Izola", "Jena", "Kotor", "Lucca", "Malmo", "Nimes", "Ohrid", "Pecs"),
)
PLACES = (
    "Old Harbour",
    "North Gate",
    "Mill Lane",
    "Castle Hill",
    "Rose Park",
    "Glass House",
    "West Pier",
    "Long Bridge",
)
PEOPLE = ["Ada", "Bo", "Cleo", "Dan", "Eva", "Finn", "Gus", "Hana", "Ivo", "Jo", "Kai", "Lena"]
_STAY_SENTENCES = ("You would like to visit {0} for {1} days.", "You plan to stay in {0} for {1} days.")
_DATE_SENTENCES = (
    "You have to attend a workshop in {0} between day {1} and day {2}.",
    "You want to meet a friend in {0} between day {1} and day {2}.",
)


def generate_rows(task: str, count: int, size: int, seed: int = 0) -> Iterator[Mapping[str, Any]]:
    """Yields rows in the format of the data, with solutions.

    Args:
        task: "trip", "meeting", "calendar" or "stegpoet".
        count: Number of rows.
        size: Cities, friends, participants or numbers per problem.
        seed: Random seed.
    """
    generators = {
        "trip": generate_trip,
        "meeting": generate_meeting,
        "calendar": generate_calendars,
        "stegpoet": stegpoet.generate_row,
    }
    for index in range(count):
        yield generators[task](f"{task}_{seed}_{index}", size, Random(f"{seed}/{task}/{index}/{size}"))


def generate_trip(id: str, size: int, rng: Random) -> Mapping[str, Any]:
    """Generates a trip with exactly one solution, like those of the data."""
    while True:
        row = _generate_trip_row(id, size, rng)
        if count_solutions(trip.from_text(id, row["prompt_0shot"])) == 1:
            return row


def count_solutions(problem: trip.Trip, limit: int = 2) -> int:
    """Counts the city orders that satisfy a trip, up to `limit`, by extending valid orders."""
    count = 0
    stack: list[tuple[tuple[str, ...], int]] = [((), 1)]
    while stack and count < limit:
        order, day = stack.pop()
        count += len(order) == len(problem.days)
        for city, length in problem.days.items():
            first, last = problem.dates.get(city, (day, day + length - 1))
            is_linked = not order or (order[-1], city) in problem.flights
            if city not in order and is_linked and day <= first and last <= day + length - 1:
                stack.append(((*order, city), day + length - 1))
    return count


def _generate_trip_row(id: str, size: int, rng: Random) -> Mapping[str, Any]:
    """Generates a trip from a solution: its flights and some others, and fixed days for a third of the cities."""
    cities = rng.sample(CITIES, size)
    days = {city: rng.randint(2, 6) for city in cities}
    total = sum(days.values()) - size + 1
    first_days = list(itertools.accumulate((days[city] - 1 for city in cities[:-1]), initial=1))
    stays = [trip.Stay(city, day, day + days[city] - 1) for city, day in zip(cities, first_days, strict=True)]
    dated_stays = rng.sample(stays, max(1, size // 3))
    flights = [f"{origin} and {destination}" for origin, destination in itertools.pairwise(cities)]
    flights += [
        f"from {origin} to {destination}"
        for origin, destination in itertools.permutations(cities, 2)
        if rng.random() < 0.15
    ]
    rng.shuffle(flights)
    sentences = list[str]()
    for city in rng.sample(cities, size):
        sentences.append(rng.choice(_STAY_SENTENCES).format(city, days[city]))
        sentences += [
            rng.choice(_DATE_SENTENCES).format(city, stay.first_day, stay.last_day)
            for stay in dated_stays
            if stay.city == city
        ]
    text = (
        f"You plan to visit {size} European cities for {total} days in total. You only take direct flights to commute "
        f"between cities. {' '.join(sentences)}\n\nHere are the cities that have direct flights:\n{', '.join(flights)}."
        "\n\n"
        f"Find a trip plan of visiting the cities for {total} days by taking direct flights to commute between them."
    )
    return {"id": id, "task": "trip_planning", "prompt_0shot": text, "golden_plan": trip.format_stays(stays)}


def generate_meeting(id: str, size: int, rng: Random) -> Mapping[str, Any]:
    """Generates a day. Its solution is the best of all orders, so it is slow for more than about 8 friends."""
    places = list(PLACES)
    rng.shuffle(places)
    travel_times = [
        f"{origin} to {destination}: {rng.randint(5, 25)}." for origin, destination in itertools.permutations(places, 2)
    ]
    sentences = [f"You arrive at {places[0]} at 9:00AM."]
    for name in rng.sample(PEOPLE, size):
        start, minutes = rng.randrange(8 * 60, 18 * 60, 15), rng.randrange(15, 121, 15)
        end = min(start + minutes + rng.randrange(15, 241, 15), 23 * 60)
        window = f"from {format_time(start)} to {format_time(end)}"
        sentences.append(
            f"{name} will be at {rng.choice(places[1:])} {window}. "
            f"You'd like to meet {name} for a minimum of {minutes} minutes."
        )
    text = (
        "You are visiting a town for the day and want to meet as many friends as possible. Solve the problem by "
        "considering various different schedules and picking the best one to optimize your goals.\n\nTravel distances "
        f"(in minutes):\n{chr(10).join(travel_times)}\n\n"
        f"CONSTRAINTS: {' '.join(sentences)}\n\nYour response should start with 'SOLUTION:'."
    )
    day = meeting.from_text(id, text)
    golden = day.format_plan(find_best_order(day)).splitlines()
    return {"id": id, "task": "meeting_planning", "prompt_0shot": text, "golden_plan": golden}


def find_best_order(day: meeting.Day) -> Sequence[Any]:
    """Returns the longest order of friends that can all be met. Tries all possible orders."""
    best: tuple[str, ...] = ()

    def extend(order: tuple[str, ...], now: int, location: str) -> None:
        nonlocal best
        best = order if len(order) > len(best) else best
        for name, friend in day.friends.items():
            if name in order:
                continue
            arrival = now + (day.travel_minutes[location, friend.location] if friend.location != location else 0)
            end = max(arrival, friend.start) + friend.min_minutes
            if end <= friend.end:
                extend((*order, name), end, friend.location)

    extend((), day.start_time, day.start_location)
    moves = {move.goal: move for move in day.moves if isinstance(move, Task)}
    return [moves[name] for name in best]


def generate_calendars(id: str, size: int, rng: Random) -> Mapping[str, Any]:
    """Generates calendars on two days. At least one time suits all participants, and its plan is the solution."""
    names, days = rng.sample(PEOPLE, size), ("Monday", "Tuesday")
    free = rng.choice(days), rng.randrange(9 * 60, 17 * 60, 30)
    lines = [f"{name} has meetings on {_generate_busy_times(days, free, rng)}; " for name in names]
    limited_day = next(day for day in days if day != free[0])
    limit = f"{limited_day} before {format_24_hours(rng.randrange(10 * 60, 15 * 60 + 1, 30))}"
    text = (
        f"You need to schedule a meeting for {', '.join(names[:-1])} and {names[-1]} for half an hour between the work "
        f"hours of 9:00 to 17:00 on either {' or '.join(days)}. \n\n"
        f"Here are the existing schedules for everyone during the days: \n{chr(10).join(lines)}\n\n"
        f"{names[0]} can not meet on {limit}. Find a time that works for everyone's schedule and constraints. \n"
        "SOLUTION: "
    )
    golden = calendars.from_text(id, text).earliest
    return {"id": id, "task": "calendar_scheduling", "prompt_0shot": text, "golden_plan": str(golden)}


def _generate_busy_times(days: Sequence[str], free: tuple[str, int], rng: Random) -> str:
    times = list[str]()
    for day in days:
        starts = [start for start in range(9 * 60, 17 * 60, 30) if (day, start) != free]
        busy_starts = sorted(rng.sample(starts, rng.randint(3, 8)))
        ranges = [f"{format_24_hours(start)} to {format_24_hours(start + 30)}" for start in busy_starts]
        times.append(f"{day} during {', '.join(ranges)}")
    return ", ".join(times)


def to_lines(rows: Iterator[Mapping[str, Any]]) -> str:
    """Returns rows as JSON lines."""
    return "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)

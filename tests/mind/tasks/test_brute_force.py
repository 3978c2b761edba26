"""Evaluators of the tasks agree with brute-force checkers on 500 random small problems each.

A problem is drawn as plain numbers and written as a text. The evaluator reads the text. The checker reads the numbers
and walks through the plan day by day, or minute by minute.
"""

import itertools
from random import Random

from atoll.mind.actions import Task
from atoll.mind.tasks import calendars, meeting, plan_text, trip

NUM_PROBLEMS = 500
NUM_ORDERS, NUM_SLOTS = 6, 15  # plans per problem
CITIES = ("Alba", "Brno", "Cork", "Delft")
DAYS = ("Monday", "Tuesday")


def draw_trip(rng):
    """Returns the days per city, the fixed days, the flights in both or one direction, and the text."""
    cities = rng.sample(CITIES, rng.randint(2, 4))
    days = {city: rng.randint(1, 4) for city in cities}
    total = sum(days.values()) - len(cities) + 1
    fixed = {}
    for city in rng.sample(cities, rng.randint(0, 2)):
        first = rng.randint(1, total)
        fixed[city] = first, min(total, first + rng.randint(0, days[city] - 1))
    pairs = [pair for pair in itertools.combinations(cities, 2) if rng.random() < 0.7]
    both_ways = {pair: rng.random() < 0.6 for pair in pairs}
    stays = [f"You plan to stay in {city} for {number} days." for city, number in days.items()]
    stays += [f"You want to meet a friend in {city} between day {a} and day {b}." for city, (a, b) in fixed.items()]
    flights = [f"{a} and {b}" if both else f"from {a} to {b}" for (a, b), both in both_ways.items()]
    text = (
        f"You plan to visit {len(cities)} European cities for {total} days in total. {' '.join(stays)}\n\n"
        f"Here are the cities that have direct flights:\n{', '.join(flights)}.\n\nFind a trip plan."
    )
    links = {*pairs, *((b, a) for (a, b), both in both_ways.items() if both)}
    return days, total, fixed, links, text


def is_valid_trip(days, total, fixed, links, stays):
    """Walks through the days and checks every constraint."""
    where = {day: [city for city, first, last in stays if first <= day <= last] for day in range(1, total + 3)}
    num_days = {city: sum(city in cities for cities in where.values()) for city in days}
    flights = list(itertools.pairwise(city for city, _, _ in stays))
    return (
        sorted(city for city, _, _ in stays) == sorted(days)
        and num_days == days
        and stays[0][1] == 1
        and all(stay[2] == after[1] for stay, after in itertools.pairwise(stays))
        and all(where[day] for day in range(1, total + 1))
        and not where[total + 1]
        and all(city in where[day] for city, (first, last) in fixed.items() for day in range(first, last + 1))
        and all(flight in links for flight in flights)
    )


def change_stays(stays, rng):
    """Returns stays with up to one change: a day earlier or later, a stay less, or another city."""
    stays, index = list(stays), rng.randrange(len(stays))
    city, first, last = stays[index]
    match rng.randrange(4):
        case 0:
            stays[index] = city, first, last + 1
        case 1:
            stays[index] = city, max(1, first - 1), last
        case 2 if len(stays) > 1:
            del stays[index]
        case 3:
            stays[index] = rng.choice(CITIES), first, last
    return stays


def test_trips_agree_with_brute_force():
    verdicts = {True: 0, False: 0}
    for index in range(NUM_PROBLEMS):
        rng = Random(f"trip {index}")
        days, total, fixed, links, text = draw_trip(rng)
        problem = trip.from_text(str(index), text)
        orders = list(itertools.permutations(days))
        for order in rng.sample(orders, min(NUM_ORDERS, len(orders))):
            stays, day = [], 1
            for city in order:
                stays.append((city, day, day + days[city] - 1))
                day = stays[-1][2]
            for plan in (stays, change_stays(stays, rng)):
                expected = is_valid_trip(days, total, fixed, links, plan)
                result = problem.evaluate(trip.format_stays([trip.Stay(*stay) for stay in plan]))
                assert (result.is_solved, result.score == 0) == (expected, expected), (text, plan)
                verdicts[expected] += 1
    assert min(verdicts.values()) > NUM_PROBLEMS // 2


def draw_day(rng):
    """Returns the friends, the travel times and the text of a day that starts at A at 9:00."""
    minutes = {pair: rng.randint(1, 30) for pair in itertools.permutations("ABC", 2)}
    friends = {}
    for name in ("Ann", "Bob", "Cy")[: rng.randint(1, 3)]:
        start = rng.randrange(540, 660, 5)
        friends[name] = rng.choice("ABC"), start, start + rng.randrange(20, 90, 5), rng.randrange(10, 60, 5)
    sentences = [
        f"{name} will be at {place} from {plan_text.format_time(start)} to {plan_text.format_time(end)}. "
        f"You'd like to meet {name} for a minimum of {length} minutes."
        for name, (place, start, end, length) in friends.items()
    ]
    distances = "\n".join(f"{a} to {b}: {number}." for (a, b), number in minutes.items())
    text = (
        f"Travel distances (in minutes):\n{distances}\n\nCONSTRAINTS: You arrive at A at 9:00AM. {' '.join(sentences)}"
    )
    return friends, minutes, text


def draw_meetings(friends, minutes, rng):
    """Returns meetings with friends in random order, about as early as possible, some of them at wrong times."""
    meetings, now, place = [], 540, "A"
    for name in rng.sample(list(friends), rng.randint(1, len(friends))):
        location, opens, _, length = friends[name]
        start = max(now + (0 if place == location else minutes[place, location]), opens)
        start += rng.choice((0, 0, 0, 5, -5))
        end = start + length + rng.choice((0, 0, 0, 5, -5))
        meetings.append((name, location, start, end))
        now, place = end, location
    return meetings


def find_valid_names(friends, minutes, meetings):
    """Walks through the day. Returns the friends whose meeting is possible."""
    valid, free_from, place = set(), 540, "A"
    for name, location, start, end in meetings:
        _, opens, closes, length = friends[name]
        free_from += 0 if place == location else minutes[place, location]
        busy = range(start, end)
        if start >= free_from and len(busy) >= length and all(opens <= minute < closes for minute in busy):
            valid.add(name)
        free_from, place = max(free_from, end), location
    return valid


def write_day(meetings):
    lines, place = ["You start at A at 9:00AM."], "A"
    for name, location, start, end in meetings:
        lines += [f"You travel to {location} in 9 minutes and arrive at 9:00AM."] * (location != place)
        window = f"from {plan_text.format_time(start)} to {plan_text.format_time(end)}"
        lines.append(f"You meet {name} for {end - start} minutes {window}.")
        place = location
    return "\n".join(lines)


def read_day(plan, friends):
    """Returns the meetings of a plan in the canonical format."""
    words = [line.split() for line in plan.splitlines() if line.startswith("You meet")]
    return [(line[2], friends[line[2]][0], *map(plan_text.parse_time, (line[-3], line[-1]))) for line in words]


def test_days_agree_with_brute_force():
    num_solved = 0
    for index in range(NUM_PROBLEMS):
        rng = Random(f"meeting {index}")
        friends, minutes, text = draw_day(rng)
        problem = meeting.from_text(str(index), text)
        for _ in range(6):
            meetings = draw_meetings(friends, minutes, rng)
            valid = find_valid_names(friends, minutes, meetings)
            plan = write_day(meetings)
            result = problem.evaluate(plan)
            assert problem.count_met(plan) == len(valid), (text, plan)
            assert result.score == len(valid) - 2 * (len(meetings) - len(valid))
            assert result.is_solved == (len(valid) == len(friends))
            num_solved += result.is_solved
        orders = (order for count in range(1, 4) for order in itertools.permutations(friends, count))
        plans = (problem.format_plan([Task("meet", name) for name in order]) for order in orders)
        assert problem.max_score == max(
            len(find_valid_names(friends, minutes, read_day(plan, friends))) for plan in plans
        )
    assert num_solved > NUM_PROBLEMS // 5


def draw_calendars(rng):
    """Returns the length, the blocked minutes by day, whether the earliest time is wanted, and the text."""
    length, lines = rng.choice((30, 60)), []
    blocked: dict[str, set[int]] = {day: set() for day in DAYS}
    for name in ("Ann", "Bob", "Cy")[: rng.randint(2, 3)]:
        parts = []
        for day in DAYS:
            starts = sorted(rng.sample(range(540, 720, 30), rng.randint(1, 3)))
            ranges = (f"{write_time(start)} to {write_time(start + 30)}" for start in starts)
            parts.append(f"{day} during {', '.join(ranges)}")
            blocked[day] |= {minute for start in starts for minute in range(start, start + 30)}
        lines.append(f"{name} has meetings on {', '.join(parts)};")
    day, side, limit = rng.choice(DAYS), rng.choice(("before", "after")), rng.randrange(540, 720, 30)
    blocked[day] |= set(range(limit)) if side == "before" else set(range(limit, 1440))
    wants_earliest = rng.random() < 0.4
    preferences = f"Ann can not meet on {day} {side} {write_time(limit)}. "
    preferences += "The group would like to meet at their earlist availability. " * wants_earliest
    duration = "half an hour" if length == 30 else "one hour"
    text = (
        f"You need to schedule a meeting for Ann, Bob and Cy for {duration} between the work hours of 9:00 to 12:00 on "
        f"either Monday or Tuesday. \n\n{chr(10).join(lines)}\n\n{preferences}\nSOLUTION: "
    )
    return length, blocked, wants_earliest, text


def write_time(minutes):
    return f"{minutes // 60}:{minutes % 60:02}"


def test_calendars_agree_with_brute_force():
    verdicts = {True: 0, False: 0}
    for index in range(NUM_PROBLEMS):
        rng = Random(f"calendar {index}")
        length, blocked, wants_earliest, text = draw_calendars(rng)
        problem = calendars.from_text(str(index), text)
        free = [
            (day, start)
            for day in DAYS
            for start in range(540, 720 - length + 1, 15)
            if not blocked[day].intersection(range(start, start + length))
        ]
        allowed = set(free[:1] if wants_earliest else free)
        slots = list(itertools.product((*DAYS, "Friday"), range(510, 721, 15)))
        for day, start in sorted({*rng.sample(slots, NUM_SLOTS), *free[:1], *free[-1:]}):
            extra = 30 if rng.random() < 0.1 else 0
            expected = (day, start) in allowed and not extra
            plan = str(calendars.Slot(day, start, start + length + extra))
            assert problem.evaluate(plan).is_solved == expected, (text, plan)
            verdicts[expected] += 1
    assert min(verdicts.values()) > NUM_PROBLEMS // 2

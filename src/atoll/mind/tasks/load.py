"""Problems from a file of JSON lines, in the format of Natural Plan; of a solution nothing is read here."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any, Literal

from atoll import errors
from atoll.mind.tasks import meeting, stegpoet, trip
from atoll.mind.tasks.problem import Problem

type TaskName = Literal["trip", "meeting", "stegpoet"]

# What a search may see of a row. The rest (the solution, and what gives it away) is for the grader, another process.
VISIBLE_FIELDS = ("id", "task", "prompt_0shot", "parsed_constraints", "dist_matrix")


def load_problems(path: Path, seed: int = 0, limit: int | None = None) -> list[Problem]:
    """Reads the problems of a file; their parts are shuffled, in case their order tells something.

    Args:
        path: One JSON object per line.
        seed: Of the shuffling.
        most: Only so many, from the start.

    Raises:
        SetupError: There is no such file, or a line is no problem.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise errors.SetupError(f"{path} cannot be read ({error}): task.data must name a file of JSON lines.") from None
    rows = [_parse_line(path, line_number, line) for line_number, line in enumerate(lines, 1) if line.strip()]
    problems = [parse_row(row, seed) for row in rows[:limit]]
    if not problems:
        raise errors.SetupError(f"{path} holds no problem: write one JSON object per line.")
    if len({problem.id for problem in problems}) < len(problems):
        raise errors.SetupError(f"{path} names a problem twice: every id must be another.")
    return problems


def _parse_line(path: Path, line_number: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
        return {name: row[name] for name in VISIBLE_FIELDS if name in row}
    except (ValueError, TypeError, RecursionError):
        raise errors.SetupError(
            f"Line {line_number} of {path} is no JSON object: write one problem per line."
        ) from None


def parse_row(row: Mapping[str, Any], seed: int = 0) -> Problem:
    """Makes a problem of what may be seen of a row.

    Raises:
        SetupError: It is none that is known.
    """
    id, text, task = (str(row.get(name, "")) for name in ("id", "prompt_0shot", "task"))
    rng = Random(f"{seed}/{id}")
    if task.startswith("trip"):
        return _set_flight_directions(trip.from_text(id, text), row.get("parsed_constraints"), rng)
    if task.startswith("meeting"):
        day = meeting.from_text(id, text)
        return replace(day, friends=shuffle_mapping(day.friends, rng))
    if task.startswith("steg"):
        return stegpoet.from_text(id, text)
    raise errors.SetupError(
        f"{id or 'A row'} has the task {task!r:.40}: there are trip_planning, meeting_planning, stegpoet."
    )


def _set_flight_directions(problem: trip.Trip, constraints: Any, rng: Random) -> trip.Trip:
    """Takes the direction of flights from the parse that the data brings, where it does.

    The words "A and B" name a pair; under the data's parse each pair is flown one way, and a trip has one solution.
    """
    flights = problem.flights
    if isinstance(constraints, Mapping) and constraints.get("direct_flights"):
        flights = frozenset((str(flight["from"]), str(flight["to"])) for flight in constraints["direct_flights"])
    return replace(problem, days=shuffle_mapping(problem.days, rng), flights=flights)


def shuffle_mapping[K, V](mapping: Mapping[K, V], rng: Random) -> dict[K, V]:
    items = list(mapping.items())
    rng.shuffle(items)
    return dict(items)

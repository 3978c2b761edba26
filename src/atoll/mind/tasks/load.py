"""Loads problems from JSON lines in the format of Natural Plan. Solutions are not read here."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from atoll import errors
from atoll.mind.tasks import calendars, meeting, stegpoet, trip
from atoll.mind.tasks.problem import Problem

# Fields of a row that a search may see: the text and its name. Only the grader, in another process, reads the others.
VISIBLE_FIELDS = ("id", "task", "prompt_0shot")


def load_problems(path: Path, seed: int = 0, limit: int | None = None) -> list[Problem]:
    """Reads the problems of a file. Their parts are shuffled, because their order may reveal the solution.

    Args:
        path: File with one JSON object per line.
        seed: Seed of the shuffling.
        limit: Number of problems to read.

    Raises:
        SetupError: The file is not found, or a line is not a problem.
    """
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeError) as error:
        raise errors.SetupError(f"{path} cannot be read ({error}). Set task.data to a file of JSON lines.") from None
    rows = [_parse_line(path, line_number, line) for line_number, line in enumerate(lines, 1) if line.strip()]
    problems = [parse_row(row, seed) for row in rows[:limit]]
    if not problems:
        raise errors.SetupError(f"{path} has no problems. Write one JSON object per line.")
    if len({problem.id for problem in problems}) < len(problems):
        raise errors.SetupError(f"{path} has duplicate ids. Give each problem its own id.")
    return problems


def _parse_line(path: Path, line_number: int, line: str) -> Mapping[str, Any]:
    try:
        row = json.loads(line)
        return {name: row[name] for name in VISIBLE_FIELDS if name in row}
    except (ValueError, TypeError, RecursionError):
        raise errors.SetupError(
            f"Line {line_number} of {path} is not a JSON object. Write one problem per line."
        ) from None


def parse_row(row: Mapping[str, Any], seed: int = 0) -> Problem:
    """Makes a problem from the visible fields of a row.

    Raises:
        SetupError: The task is unknown.
    """
    id, text, task = (str(row.get(name, "")) for name in ("id", "prompt_0shot", "task"))
    rng = Random(f"{seed}/{id}")
    if task.startswith("trip"):
        problem = trip.from_text(id, text)
        return replace(problem, days=shuffle_mapping(problem.days, rng))
    if task.startswith("meeting"):
        day = meeting.from_text(id, text)
        return replace(day, friends=shuffle_mapping(day.friends, rng))
    if task.startswith("calendar"):
        return calendars.from_text(id, text)
    if task.startswith("steg"):
        return stegpoet.from_text(id, text)
    raise errors.SetupError(
        f"{id or 'A row'} has the unknown task {task!r:.40}. "
        "Use trip_planning, meeting_planning, calendar_scheduling or stegpoet."
    )


def shuffle_mapping[K, V](mapping: Mapping[K, V], rng: Random) -> dict[K, V]:
    items = list(mapping.items())
    rng.shuffle(items)
    return dict(items)

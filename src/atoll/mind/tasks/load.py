"""Problems read from JSON lines in the format of Natural Plan, and the grader, a process that knows the solutions."""

import json
import os
import subprocess
import sys
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


TIMEOUT_SECONDS = 120  # per file


def grade(row: Mapping[str, Any], plan: str) -> bool | None:
    """Returns whether a plan breaks no constraint of the text and is as good as the solution of a row.

    A day of meetings needs as many friends as the golden plan. Other plans are correct if they break no constraint.
    """
    golden, task = row.get("golden_plan"), str(row.get("task", ""))
    if not golden:
        return None
    problem = parse_row(row)
    is_valid = not problem.evaluate(plan).errors
    if isinstance(problem, meeting.Day):
        num_expected = sum(step.count("You meet") for step in (golden if isinstance(golden, list) else [str(golden)]))
        return is_valid and problem.count_met(plan) == num_expected
    return is_valid if task.startswith(("trip", "calendar")) else None


def grade_in_subprocess(path: Path, plans: Mapping[str, str]) -> Mapping[str, bool | None]:
    """Grades plans in another process.

    Raises:
        SetupError: The process failed.
    """
    command = [sys.executable, "-m", __name__, str(path)]
    python_path = os.pathsep.join(entry for entry in sys.path if entry)  # so that it finds this package
    environment = {**os.environ, "PYTHONPATH": python_path}
    try:
        completed = subprocess.run(
            command,
            input=json.dumps(plans),
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
            check=True,
        )
        grades: Mapping[str, bool | None] = json.loads(completed.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise errors.SetupError(f"Grading with {path} failed: {error}.") from error
    return grades


def main() -> None:
    plans = json.load(sys.stdin)
    rows = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines() if line.strip()]
    sys.stdout.write(json.dumps({row["id"]: grade(row, plans[row["id"]]) for row in rows if row["id"] in plans}))


if __name__ == "__main__":
    main()

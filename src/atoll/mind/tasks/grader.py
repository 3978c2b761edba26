"""Grader: compares plans with the solutions of a file, in a process separate from the search.

    echo '{"ID": "PLAN", ...}' | python -m atoll.mind.tasks.grader FILE.jsonl

prints `{"ID": true, ...}`. The value is null if the file has no solution.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from atoll import errors
from atoll.mind.tasks import load, meeting

TIMEOUT_SECONDS = 120  # per file


def grade(row: Mapping[str, Any], plan: str) -> bool | None:
    """Returns whether a plan breaks no constraint of the text and is as good as the solution of a row.

    A day of meetings needs as many friends as the golden plan. Other plans are correct if they break no constraint.
    """
    golden, task = row.get("golden_plan"), str(row.get("task", ""))
    if not golden:
        return None
    problem = load.parse_row(row)
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

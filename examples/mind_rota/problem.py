"""A shift plan: one person per day, days off, at most a few shifts each, never two days in a row."""

import itertools
import re
from typing import Any


class Rota:
    """One week to plan. `row` is a line of data.jsonl."""

    plan_format = "Write one line per day, such as:\nMon: Ann"
    target = "The score is minus the number of errors. 0 is perfect."
    max_score = 0.0  # no plan has a higher score

    def __init__(self, row: dict[str, Any]) -> None:
        self.row = row
        self.moves = [f"{day}: {name}" for day in row["days"] for name in row["days_off"]]

    def prompt(self) -> str:
        """Returns the task as text."""
        days_off = "\n".join(f"{name} is off on {', '.join(days)}." for name, days in self.row["days_off"].items())
        return (
            f"Plan the shifts of a week: one person for each of {', '.join(self.row['days'])}.\n{days_off}\n"
            f"Each person has at most {self.row['most']} shifts, and never on two days in a row."
        )

    def parse(self, text: str) -> str:
        """Returns the plan in a response, one line per day. Raises ValueError if there is none."""
        shifts = dict(re.findall(r"\b([A-Z][a-z]{2})[a-z]*[^\w\n]{1,4}([A-Z][a-z]+)", text))
        lines = [f"{day}: {shifts[day]}" for day in self.row["days"] if day in shifts]
        if not lines:
            raise ValueError("It has no line such as Mon: Ann.")
        return "\n".join(lines)

    def evaluate(self, plan: str) -> tuple[float, str]:
        """Returns the score and the errors, one per line."""
        shifts = dict(line.split(": ") for line in plan.splitlines())
        days, off = self.row["days"], self.row["days_off"]
        names = [shifts.get(day) for day in days]
        errors = [f"{day} has no one." for day, name in zip(days, names, strict=True) if name not in off]
        errors += [f"{day}: {name} is off." for day, name in shifts.items() if day in off.get(name, ())]
        errors += [f"{name} has too many shifts." for name in off if names.count(name) > self.row["most"]]
        pairs = itertools.pairwise(zip(days, names, strict=True))
        errors += [f"{day}: {name} also works the day before." for (_, last), (day, name) in pairs if last == name]
        return -len(errors), "\n".join(errors)

    def write(self, moves: list[str]) -> str:
        """Returns the plan of some moves: the first move of each day counts. Only needed without an LLM."""
        shifts = dict[str, str]()
        for move in moves:
            shifts.setdefault(move[:3], move)
        return "\n".join(shifts[day] for day in self.row["days"] if day in shifts)

"""Calendars: parsed from text, evaluated with score, verification and feedback."""

import pytest

from atoll import errors
from atoll.mind.tasks import calendars, generate

TEXT = """You are an expert at scheduling meetings. Here are a few example tasks and solutions:

TASK: You need to schedule a meeting for Ann, Bob and Cy for half an hour between the work hours of 9:00 to 17:00 on \
either Monday or Tuesday.\x20

Here are the existing schedules for everyone during the days:\x20
Ann has blocked their calendar on Monday during 9:00 to 12:00, 13:00 to 17:00, Tuesday during 9:00 to 9:30;\x20
Bobhas no meetings the whole day.
Cy is busy on Monday during 12:00 to 13:00;\x20

Bob would rather not meet on Monday. Tuesday before 10:00. The group would like to meet at their earlist availability.
Find a time that works for everyone's schedule and constraints.\x20
SOLUTION: """


@pytest.fixture
def problem():
    return calendars.from_text("c", TEXT)


def test_from_text_parses_calendars_and_preferences(problem):
    assert problem.minutes == 30
    assert problem.hours == (calendars.Slot("Monday", 540, 1020), calendars.Slot("Tuesday", 540, 1020))
    assert ("Cy", calendars.Slot("Monday", 720, 780)) in problem.blocked
    assert ("Bob", calendars.Slot("Monday", 0, 1440)) in problem.blocked
    assert ("Bob", calendars.Slot("Tuesday", 0, 600)) in problem.blocked
    assert problem.wants_earliest
    assert problem.text.endswith("schedule and constraints.")
    assert "TASK:" not in problem.text


def test_earliest_free_time_is_solved(problem):
    result = problem.evaluate("Here is the proposed time: Tuesday, 10:00 - 10:30")
    assert (result.score, result.progress, result.is_solved) == (0, 1, True)
    assert problem.parse_trace("Tuesday, 10:00 - 10:30")[0] in problem.moves


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ("Tuesday, 10:30 - 11:00", "An earlier time"),
        ("Tuesday, 9:30 - 10:00", "does not suit Bob"),
        ("Monday, 12:30 - 13:00", "does not suit Cy"),
        ("Tuesday, 10:00 - 11:00", "takes 30 minutes"),
        ("Tuesday, 17:00 - 17:30", "outside the work hours"),
        ("Friday, 10:00 - 10:30", "Choose one of: Monday, Tuesday."),
        ("Any time.", "no readable day"),
    ],
)
def test_evaluate_reports_errors(problem, plan, message):
    assert message in problem.evaluate(plan).format_feedback()
    assert not problem.evaluate(plan).is_solved


def test_from_text_rejects_other_text():
    with pytest.raises(errors.SetupError, match="not a readable calendar task"):
        calendars.from_text("c", "Let us meet.")


@pytest.mark.parametrize("size", [2, 12])
def test_generated_solution_is_accepted(size):
    for row in generate.generate_rows("calendar", 3, size, 5):
        assert calendars.from_text(row["id"], row["prompt_0shot"]).evaluate(row["golden_plan"]).is_solved

"""Meeting planning: parsing, formatting and evaluation."""

import itertools

import pytest

from atoll import errors
from atoll.mind.actions import Task
from atoll.mind.tasks import generate, meeting, plan_text

TEXT = """You are visiting San Francisco for the day and want to meet as many friends as possible.

Travel distances (in minutes):
Pier to Hill: 10.
Hill to Pier: 12.
Pier to Park: 20.
Park to Pier: 20.
Hill to Park: 5.
Park to Hill: 5.

CONSTRAINTS: You arrive at Pier at 9:00AM. Ann will be at Hill from 9:30AM to 11:00AM. You'd like to meet Ann for a \
minimum of 60 minutes. Bob will be at Park from 8:00AM to 12:00PM. You'd like to meet Bob for a minimum of 45 minutes.

Your response should start with 'SOLUTION:'."""
GOOD = """You start at Pier at 9:00AM.
You travel to Hill in 10 minutes and arrive at 9:10AM.
You wait until 9:30AM.
You meet Ann for 60 minutes from 9:30AM to 10:30AM.
You travel to Park in 5 minutes and arrive at 10:35AM.
You meet Bob for 45 minutes from 10:35AM to 11:20AM."""


@pytest.fixture
def day():
    return meeting.from_text("m", TEXT)


def test_from_text_parses_day(day):
    assert day.friends["Ann"] == meeting.Friend("Ann", "Hill", 570, 660, 60)
    assert (day.start_location, day.start_time, day.travel_minutes["Hill", "Pier"]) == ("Pier", 540, 12)


def test_all_friends_met_is_solved(day):
    result = day.evaluate(GOOD)
    assert (result.score, result.is_solved, day.count_met(GOOD)) == (2, True, 2)


def test_format_plan_meets_friends_as_early_as_possible(day):
    assert day.format_plan([Task("meet", "Ann"), Task("meet", "Bob")]) == GOOD
    assert day.parse_plan(f"SOLUTION: {' '.join(GOOD.splitlines())}") == GOOD


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("9:30AM to 10:30AM", "9:20AM to 10:30AM", "it is 9:30AM then"),
        ("10:35AM to 11:20AM", "11:30AM to 12:15PM", "Bob is there from 8:00AM to 12:00PM"),
        ("60 minutes from 9:30AM to 10:30AM", "30 minutes from 9:30AM to 10:00AM", "Ann wants 60 minutes"),
        ("meet Bob", "meet Carl", "Carl is not among the friends."),
        ("meet Bob", "meet Ann", "Ann is met more than once."),
        ("You travel to Park in 5 minutes and arrive at 10:35AM.", "", "Bob is at Park, but you are at Hill."),
        ("wait until 9:30AM", "wait until 9:05AM", "cannot wait until 9:05AM"),
    ],
)
def test_conflict_is_reported_and_costs_2(day, before, after, message):
    result = day.evaluate(GOOD.replace(before, after))
    assert message in result.format_feedback()
    assert result.score < 2
    assert not result.is_solved


def test_unreadable_plan_loses_10(day):
    assert day.evaluate("Let us stay at home.").score == -10
    assert day.parse_plan("Let us stay at home.") is None


def test_times_round_trip():
    for minutes in itertools.chain(range(0, 1440, 37), (0, 720, 1439)):
        assert plan_text.parse_time(plan_text.format_time(minutes)) == minutes


def test_from_text_rejects_other_text():
    with pytest.raises(errors.SetupError, match="not a readable meeting task"):
        meeting.from_text("m", "Meet me.")


def test_generated_solution_is_best_of_all_orders():
    (row,) = generate.generate_rows("meeting", 1, 4, 9)
    problem = meeting.from_text(row["id"], row["prompt_0shot"])
    orders = (order for k in range(1, 5) for order in itertools.permutations(problem.moves, k))
    assert problem.count_met("\n".join(row["golden_plan"])) == max(
        problem.count_met(problem.format_plan(trace)) for trace in orders
    )

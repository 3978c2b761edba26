"""Trips: parsed from text, evaluated with score, verification and feedback."""

import pytest

from atoll import errors
from atoll.mind.actions import Task
from atoll.mind.tasks import generate, trip

TEXT = """You plan to visit 3 European cities for 10 days in total. You only take direct flights to commute between \
cities. You would like to visit Venice for 6 days. You have to attend a workshop in Venice between day 5 and day 10. \
You want to spend 2 days in Mykonos. You plan to stay in Vienna for 4 days.

Here are the cities that have direct flights:
Mykonos and Vienna, from Vienna to Venice.

Find a trip plan of visiting the cities for 10 days by taking direct flights to commute between them."""
GOOD = """**Day 1-2:** Arriving in Mykonos and visit Mykonos for 2 days.
**Day 2:** Fly from Mykonos to Vienna.
**Day 2-5:** Visit Vienna for 4 days.
**Day 5:** Fly from Vienna to Venice.
**Day 5-10:** Visit Venice for 6 days."""


@pytest.fixture
def problem():
    return trip.from_text("t", TEXT)


def test_from_text_parses_trip(problem):
    assert problem.days == {"Mykonos": 2, "Venice": 6, "Vienna": 4}
    assert problem.dates == {"Venice": (5, 10)}
    assert problem.flights == {("Mykonos", "Vienna"), ("Vienna", "Mykonos"), ("Vienna", "Venice")}
    assert problem.num_days == 10


def test_correct_plan_scores_0_and_is_solved(problem):
    result = problem.evaluate(GOOD)
    assert (result.score, result.progress, result.is_solved) == (0, 1, True)
    assert result.format_feedback() == "Every constraint is satisfied."


def test_trace_and_plan_round_trip(problem):
    assert problem.format_plan(problem.parse_trace(GOOD)) == GOOD
    assert problem.parse_plan(f"Here is the trip:\n\n{GOOD}\nEnjoy!") == GOOD


def test_each_error_is_reported_and_costs_a_point(problem):
    result = problem.evaluate(problem.format_plan([Task("visit", city) for city in ("Venice", "Vienna", "Mykonos")]))
    assert result.score == -2
    assert "The task lists no direct flight from Venice to Vienna." in result.format_feedback()
    assert "You must be in Venice from day 5 to day 10, but the plan has Day 1-6." in result.format_feedback()
    assert not result.is_solved


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        (GOOD.replace("Day 2-5", "Day 3-5"), "should begin on day 2"),
        ("\n".join(GOOD.splitlines()[:3]), "Venice is not visited."),
        (f"{GOOD}\n**Day 10-11:** Visit Rome for 2 days.", "Rome is not among the cities"),
        (f"{GOOD}\n**Day 10-10:** Visit Venice for 1 days.", "Venice is visited more than once."),
        ("I cannot do this.", "no readable days and cities"),
    ],
)
def test_evaluate_reports_errors(problem, plan, message):
    assert message in problem.evaluate(plan).format_feedback()
    assert not problem.evaluate(plan).is_solved


def test_from_text_rejects_other_text():
    with pytest.raises(errors.SetupError, match="not a readable trip task"):
        trip.from_text("t", "Fly me to the moon.")


def test_generated_trips_have_one_solution():
    for row in generate.generate_rows("trip", 3, 6, 5):
        problem = trip.from_text(row["id"], row["prompt_0shot"])
        assert generate.count_solutions(problem) == 1
        assert problem.evaluate(row["golden_plan"]).is_solved


def test_lines_of_small_llms_are_understood():
    plan = (
        "Day 1: Arriving in London and stay in London for 3 days.\nDay 3: Fly from London to Santorini.\n"
        "Day 3-5: Visit Santorini for 3 days.\nDay 5-8: Attend the conference in Santorini.\n"
        "Day 8-9: Stay for 2 days in Istanbul\nDay 9: Return home."
    )
    stays = trip.parse_stays(plan, ["London", "Santorini", "Istanbul"])
    assert [(stay.city, stay.first_day, stay.last_day) for stay in stays] == [
        ("London", 1, 3),
        ("Santorini", 3, 8),
        ("Istanbul", 8, 9),
    ]

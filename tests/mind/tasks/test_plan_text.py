"""Plans in the words and the typography of real responses."""

import pytest

from atoll.mind import prompts
from atoll.mind.tasks import calendars, meeting, trip
from tests.mind.tasks import test_calendars, test_meeting, test_trip

TRIPS = {
    "en dash": "**Day 1\u20132:** Visit Mykonos for 2 days.\n**Day 2\u20135:** Visit Vienna.\n"
    "**Day 5\u201310:** Visit Venice.",
    "days": "Days 1-2: Mykonos\nDays 2-5: Vienna\nDays 5-10: Venice",
    "words": "Day 1 to Day 2: Stay in Mykonos.\nDay 2 through 5: Stay in Vienna\nDay 5 to 10: Stay in Venice",
    "bullets": "- **Day 1-2**: Visit Mykonos\n* Day 2: Fly from Mykonos to Vienna\n* Day 2-5: Explore Vienna (4 days)\n"
    "\u2022 Day 5-10: Spend 6 days in Venice",
    "numbers": "1. Day 1-2: Arrive in Mykonos\n2. Day 2-5: Vienna, 4 days\n3. Day 5-10: Venice",
    "one line": "Day 1-2: Visit Mykonos for 2 days. Day 2: Fly from Mykonos to Vienna. Day 2-5: Visit Vienna. "
    "Day 5: Fly from Vienna to Venice. Day 5-10: Visit Venice for 6 days.",
    "fence and prose": "My plan:\n```text\nDay 1-2: Visit Mykonos\nDay 2-5: Visit Vienna\nDay 5-10: Visit Venice\n```"
    "\nVenice is last because of the workshop between day 5 and day 10.",
    "headings": "### Day 1 - 2 \u2014 Mykonos\n### Day 2 - 5 \u2014 Vienna\n### Day 5 - 10 \u2014 Venice",
    "table": "| Day 1-2 | Mykonos |\n| Day 2-5 | Vienna |\n| Day 5-10 | Venice |",
    "reasoning": "<think>Day 1-5: Venice?</think>\nDay 1-2: Mykonos\nDay 2-5: Vienna\nDay 5-10: Venice",
}
DAYS = {
    "9 am": "You travel to Hill in 10 minutes. You wait until 9:30 am. You meet Ann for 60 minutes from 9:30 am to "
    "10:30 a.m. You travel to Park in 5 minutes. You meet Bob from 10:35 AM to 11:20 AM.",
    "bullets": "- Travel to Hill (10 minutes)\n- Wait until 9:30AM\n- **Meet Ann** from 9:30AM\u201310:30AM\n"
    "- Travel to Park\n- Meet Bob for 45 minutes: 10:35AM to 11:20AM",
    "times first": "1. 9:30AM - 10:30AM: Meet Ann at Hill\n2. 10:35AM - 11:20AM: Meet with Bob at Park",
    "24 hours": "SOLUTION: You walk to Hill. You meet Ann from 9:30 to 10:30. You walk to Park. "
    "You meet Bob from 10:35 to 11:20.",
    "round hours": "You travel to Hill. You meet Ann from 9:30am to 10:30am.\nYou travel to Park.\n"
    "You meet Bob from 11 am to noon.",
}
CALENDARS = (
    "Tuesday 10:00\u201310:30",
    "**Tuesday**, 10:00 to 10:30",
    "Tuesday from 10 am to 10:30 am",
    "- Tuesday, 10:00 - 10:30",
)


@pytest.mark.parametrize("name", TRIPS)
def test_trips_are_read(name):
    problem = trip.from_text("t", test_trip.TEXT)
    assert prompts.read_plan(problem, TRIPS[name]).plan == test_trip.GOOD


@pytest.mark.parametrize("name", DAYS)
@pytest.mark.parametrize("form", ["{}", "Sure!\n<plan>\n{}\n</plan>", "<critic>- bad</critic>\n```\n{}\n```"])
def test_days_are_read(name, form):
    problem = meeting.from_text("m", test_meeting.TEXT)
    read = prompts.read_plan(problem, form.format(DAYS[name]))
    assert read.plan is not None
    assert problem.evaluate(read.plan).is_solved, read.plan


@pytest.mark.parametrize("plan", CALENDARS)
def test_calendars_are_read(plan):
    problem = calendars.from_text("c", test_calendars.TEXT)
    assert prompts.read_plan(problem, f"I propose:\n{plan}").plan == "Tuesday, 10:00 - 10:30"


def test_line_that_was_not_understood_is_quoted():
    problem = trip.from_text("t", test_trip.TEXT)
    read = prompts.read_plan(problem, "Sorry.\n<plan>\nFirst:\nWeek 1: somewhere warm\n</plan>")
    assert read == (None, 'This line was not understood: "Week 1: somewhere warm".')
    assert prompts.read_plan(problem, "<plan></plan>").reason == "It was empty."


def test_text_without_a_plan_is_not_read():
    assert prompts.read_plan(trip.from_text("t", test_trip.TEXT), "You must be in Venice by Day 5.").plan is None
    assert prompts.read_plan(meeting.from_text("m", test_meeting.TEXT), "You meet nobody.").plan is None

"""StegPoet: parsing, formatting and evaluation."""

from random import Random

import pytest

from atoll import errors
from atoll.mind.tasks import stegpoet

TEXT = (
    "Write a short text that hides a message. Hide these numbers, in this order: 10, 20, 10. Choose a code word for "
    "every number. Between two code words there must stand on average at least 2 other words."
)
GOOD = "10 -> rain\n20 -> oak\nTEXT:\nThe rain falls on the oak and still the rain keeps falling"


@pytest.fixture
def poem():
    return stegpoet.from_text("s", TEXT)


def test_correct_text_is_solved(poem):
    assert poem.evaluate(GOOD).is_solved


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("20 -> oak", "20 -> rain", "is the code of more than one number"),
        ("20 -> oak\n", "", "20 has no code word"),
        ("on the oak", "on the rain", "Position 2 should hide 20"),
        ("keeps falling", "keeps falling, rain", "1 numbers too many"),
        (
            "The rain falls on the oak and still the rain keeps falling",
            "rain oak rain",
            "other words for each code word",
        ),
        ("TEXT:", "", "no readable code and text"),
    ],
)
def test_evaluate_reports_errors(poem, before, after, message):
    result = poem.evaluate(GOOD.replace(before, after))
    assert message in result.format_feedback()
    assert not result.is_solved


def test_format_plan_of_positions_and_fillers_is_solved(poem):
    places, filling = poem.moves[:3], poem.moves[3:]
    trace = [action for pair in zip(places, filling, strict=True) for action in pair]
    assert poem.evaluate(poem.format_plan(trace)).is_solved
    assert list(poem.parse_trace(poem.format_plan(trace))) == trace


def test_generated_message_can_be_parsed():
    row = stegpoet.generate_row("s", 6, Random(0))
    assert len(stegpoet.from_text("s", row["prompt_0shot"]).numbers) == 6
    with pytest.raises(errors.SetupError, match="not a readable StegPoet task"):
        stegpoet.from_text("s", "Say nothing.")

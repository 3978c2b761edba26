"""StegPoet: a message in a text, by a code of the author's own."""

from random import Random

import pytest

from atoll import errors
from atoll.mind.tasks import stegpoet

TEXT = (
    "Write a short text that hides a message. Hide these numbers, in this order: 10, 20, 10. Choose a code word for "
    "every number. Between two code words there must stand on average at least 2 other words."
)
GOOD = "10 -> rain\n20 -> oak\nTEXT:\nThe rain falls on the oak and still the rain goes on"


@pytest.fixture
def poem():
    return stegpoet.from_text("s", TEXT)


def test_a_text_that_hides_the_message_with_room_between_is_solved(poem):
    assert poem.evaluate(GOOD).is_solved


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        ("20 -> oak", "20 -> rain", "stands for more than one number"),
        ("20 -> oak\n", "", "20 has no code word"),
        ("on the oak", "on the rain", "Place 2 of the message should be 20"),
        ("goes on", "goes on, rain", "1 numbers too many"),
        ("The rain falls on the oak and still the rain goes on", "rain oak rain", "other words for each code word"),
        ("TEXT:", "", "no code and text"),
    ],
)
def test_what_is_wrong_is_told(poem, before, after, told):
    found = poem.evaluate(GOOD.replace(before, after))
    assert told in found.format_feedback()
    assert not found.is_solved


def test_traces_of_places_and_filling_make_a_text_that_is_solved(poem):
    places, filling = poem.moves[:3], poem.moves[3:]
    trace = [each for pair in zip(places, filling, strict=True) for each in pair]
    assert poem.evaluate(poem.format_plan(trace)).is_solved
    assert list(poem.parse_trace(poem.format_plan(trace))) == trace


def test_a_message_that_is_made_up_can_be_read_again():
    row = stegpoet.generate_row("s", 6, Random(0))
    assert len(stegpoet.from_text("s", row["prompt_0shot"]).numbers) == 6
    with pytest.raises(errors.SetupError, match="no message to hide"):
        stegpoet.from_text("s", "Say nothing.")

"""All nine contracts and a person, in one process and with no model (G5)."""

from examples import governed_closed_loop as loop


def test_the_answers_come_to_the_length_that_readers_like_and_the_bad_idea_goes_back():
    values, stage = loop.main()
    distances = [abs(value - loop.LIKED_WORDS) for value in values]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 20 < distances[0]
    assert stage == "rolled_back"

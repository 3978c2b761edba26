"""All nine contracts and a person, in one process and with no model (G5)."""

from examples import governed_closed_loop as loop


def test_closed_loop_finds_best_length_and_rolls_back_harmful_value():
    values, stage = loop.main()
    distances = [abs(value - loop.LIKED_WORDS) for value in values]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 20 < distances[0]
    assert stage == "rolled_back"

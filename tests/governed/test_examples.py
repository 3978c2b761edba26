"""Examples of the governed loops, without an LLM (G5)."""

from examples import governed_closed_loop, governed_own_runs


def test_closed_loop_finds_best_length_and_rolls_back_harmful_value():
    values, stage = governed_closed_loop.main()
    distances = [abs(value - governed_closed_loop.LIKED_WORDS) for value in values]
    assert distances == sorted(distances, reverse=True)
    assert distances[-1] < 20 < distances[0]
    assert stage == "rolled_back"


def test_run_parameter_is_shadowed_approved_used_and_rolled_back():
    result = governed_own_runs.main()
    assert result.verdict == "promote"
    assert result.used == [(1, 12), (2, 40), (3, 12)]
    assert result.resumed == 2  # a resumed run keeps its version

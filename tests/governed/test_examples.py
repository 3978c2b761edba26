"""Examples of the governed loops, without an LLM (G5)."""

import pytest

from examples import governed_closed_loop, governed_own_runs
from examples.governed_agent import pipeline, support_agent


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


@pytest.mark.process
def test_agent_behind_http_goes_through_the_whole_pipeline(capsys):
    outcome = pipeline.main()
    assert "canary 50%" in outcome.good_stages  # the first step has 25 %
    assert outcome.good_stages[-1] == "full 100%"
    assert outcome.bad_stages[-1] == "rolled_back 0%"
    assert "guardrail breached: cost" in outcome.bad_reason
    assert outcome.values == {**support_agent.INITIAL_VALUES, **pipeline.GOOD_CHANGES}
    assert "{+ Ask for the order number.+}" in capsys.readouterr().out

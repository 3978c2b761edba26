"""Long runs of the playbook benchmark: token limit, speed and rollback."""

import pytest

from bench import playbook


def run_turns(count, budget):
    return dict(zip(playbook.COLUMNS, playbook.turns(count, seed=3, budget=budget), strict=True))


def test_turns_stay_under_token_limit_and_roll_back_exactly():
    row = run_turns(160, budget=600)
    assert 500 < row["most tokens"] <= 600
    assert row["rollback restores the files byte for byte"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_turns_do_not_slow_down():
    row = run_turns(10_000, budget=4_000)
    assert row["most tokens"] <= 4_000
    assert row["last : first"] < 1.3
    assert row["rollback restores the files byte for byte"]

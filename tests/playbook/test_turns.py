"""A long life: under its budget, at the same pace, and back to the byte."""

import pytest

from bench import playbook


def lived(count, budget):
    return dict(zip(playbook.COLUMNS, playbook.turns(count, seed=3, budget=budget), strict=True))


def test_some_turns_stay_under_the_budget_and_roll_back_to_the_byte():
    row = lived(160, budget=600)
    assert 500 < row["most tokens"] <= 600
    assert row["rollback restores the files byte for byte"]


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_ten_thousand_turns_take_no_longer_at_the_end_than_at_the_beginning():
    row = lived(10_000, budget=4_000)
    assert row["most tokens"] <= 4_000
    assert row["last : first"] < 1.3
    assert row["rollback restores the files byte for byte"]

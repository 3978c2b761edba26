"""Parameter stores reach at least half of their speed goals, by CPU time (section 6 of the spec)."""

import pytest

from bench import governed_stores

GOALS = {
    "get, cached": 1_000_000,
    "get, SQLite": 25_000,
    "set, SQLite, a commit each": 5_000,
    "set, SQLite, one commit": 20_000,
    "audit verify, changes": 100_000,
}


@pytest.mark.parametrize("part", [governed_stores.reads, governed_stores.writes], ids=["reads", "writes"])
def test_stores_reach_half_of_each_goal(tmp_path, part):
    for row in part(tmp_path, 2_000):
        assert row.ours >= GOALS[row.metric] / 2, row


def test_every_rate_has_a_goal(tmp_path):
    found = [row.metric for part in (governed_stores.reads, governed_stores.writes) for row in part(tmp_path, 200)]
    assert found == list(GOALS)

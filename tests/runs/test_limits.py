"""When a run ends before its budget."""

from atoll.control import RunProgress
from atoll.runs import limits


def test_plateau_rule_stops_after_patience():
    rule = limits.PlateauRule(3, 0.0)
    result = [rule(RunProgress(step, score, 0)) for step, score in enumerate((1.0, 1.0, 2.0, 2.0, 2.0, 2.0))]
    assert result == [None] * 5 + ["no gain in 3 iterations"]


def test_plateau_rule_adds_up_small_gains():
    rule = limits.PlateauRule(3, 0.5)
    scores = (1.0, 1.2, 1.4, 1.6, 1.6, 1.6)
    assert all(rule(RunProgress(step, score, 0)) is None for step, score in enumerate(scores))
    assert rule(RunProgress(6, 1.7, 0)) == "no gain of at least 0.5 in 3 iterations"


def test_plateau_rule_uses_history_of_resumed_run():
    rule = limits.PlateauRule(3, 0.0, [(0, 1.0), (2, 5.0), (3, 4.0)])
    assert rule(RunProgress(4, 5.0, 0)) is None
    assert rule(RunProgress(5, 5.0, 0)) == "no gain in 3 iterations"


def test_plateau_rule_without_scores():
    rule = limits.PlateauRule(2, 0.0)
    assert rule(RunProgress(1, None, 0)) is None
    assert rule(RunProgress(2, None, 0)) == "no gain in 2 iterations"

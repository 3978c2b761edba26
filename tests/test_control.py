"""Budgets, stop rules and stop signals."""

import pytest

from atoll import control
from atoll.evaluation import Cost
from atoll.testing import fakes


@pytest.mark.parametrize(
    ("budget", "below", "reached", "message"),
    [
        (control.Budget(iterations=10), control.Usage(iterations=9), control.Usage(iterations=10), "iterations"),
        (control.Budget(evaluations=10), control.Usage(evaluations=9), control.Usage(0, 11), "evaluations"),
        (control.Budget(calls=10), control.Usage(0, 0, Cost(calls=9)), control.Usage(0, 0, Cost(calls=10)), "calls"),
        (
            control.Budget(tokens=10),
            control.Usage(cost=Cost(tokens_in=5, tokens_out=4)),
            control.Usage(cost=Cost(tokens_in=5, tokens_out=5)),
            "tokens",
        ),
        (control.Budget(usd=10), control.Usage(0, 0, Cost(usd=9.99)), control.Usage(0, 0, Cost(usd=10.0)), "usd"),
        (control.Budget(seconds=10), control.Usage(seconds=9.9), control.Usage(seconds=10.0), "seconds"),
    ],
    ids=["iterations", "evaluations", "calls", "tokens", "usd", "seconds"],
)
def test_budget_is_used_when_its_limit_is_reached(
    budget: control.Budget, below: control.Usage, reached: control.Usage, message: str
) -> None:
    assert budget.find_exhausted_limit(below) is None
    assert budget.find_exhausted_limit(reached) == f"budget of 10 {message} used"


def test_budget_without_limits_is_never_used_up() -> None:
    much = control.Usage(10**9, 10**9, Cost(1e9, 10**9, 10**9, 1e9, 10**9), 1e9)
    assert control.UNLIMITED.find_exhausted_limit(much) is None


def test_limit_of_zero_is_reached_at_once() -> None:
    assert control.Budget(usd=0.0).find_exhausted_limit(control.Usage()) == "budget of 0 usd used"


def test_raising_one_limit_keeps_others() -> None:
    budget = control.Budget(iterations=5, usd=1.0).with_raised_limits({"iterations": 8})
    assert budget == control.Budget(iterations=8, usd=1.0)


def test_raising_never_lowers_or_creates_limits() -> None:
    assert control.Budget(iterations=5).with_raised_limits({"iterations": 3, "usd": 1.0}) == control.Budget(
        iterations=5
    )


def test_unknown_limit_cannot_be_raised() -> None:
    with pytest.raises((AttributeError, TypeError), match="bananas"):
        control.Budget().with_raised_limits({"bananas": 3})


def test_first_reason_to_stop_stays() -> None:
    switch = control.StopSignal()
    assert (switch.is_set(), switch.reason) == (False, "")
    switch.stop("dinner")
    switch.stop("boredom")
    assert (switch.is_set(), switch.reason) == (True, "dinner")
    nameless = control.StopSignal()
    nameless.stop("")
    assert (nameless.is_set(), nameless.reason) == (True, "stopped")


def test_stop_signal_has_reason_in_every_thread() -> None:
    switch = control.StopSignal()
    fakes.run_concurrently(lambda number: switch.stop(f"thread {number}"))
    assert switch.is_set()
    assert switch.reason.startswith("thread ")


def test_target_stops_when_best_score_reaches_it() -> None:
    rule = control.make_target_rule(1.5)
    assert rule(control.RunProgress(3, None, 0)) is None
    assert rule(control.RunProgress(3, 1.4, 0)) is None
    assert rule(control.RunProgress(3, 1.5, 0)) == "score 1.5 reached"


def test_plateau_stops_without_new_best() -> None:
    rule = control.make_plateau_rule(10)
    assert rule(control.RunProgress(19, 1.0, 10)) is None
    assert rule(control.RunProgress(20, 1.0, 10)) == "no improvement in 10 iterations"

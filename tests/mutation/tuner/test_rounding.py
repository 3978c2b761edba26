"""Rounding: fewer digits without a lower score."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import mutation
from atoll.mutation.tuner import BestPoint, Space, Tunable, find_tunables, minimize, space
from atoll.mutation.tuner.engine import PointRounder
from tests.mutation.tasks import fn
from tests.mutation.tuner.test_tuner import SOURCE, make_evaluated_context


@pytest.mark.parametrize(
    ("low", "high", "roundest"),
    [(0.2613, 0.3391, 0.3), (9.7, 10.4, 10.0), (-34.2, -33.9, -34.0), (-0.2, 5.0, 0.0), (1e-9, 3e-9, 2e-9)],
)
def test_find_roundest(low, high, roundest):
    assert space.find_roundest(low, high) == roundest


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_roundest_is_in_range_with_few_digits(first, second):
    low, high = sorted((first, second))
    roundest = space.find_roundest(low, high)
    assert low <= roundest <= high
    assert space.count_digits(roundest) <= max(space.count_digits(low), space.count_digits(high))


def test_rounder_keeps_score():
    space = Space([Tunable("a", 0.5, 0, 1), Tunable("b", 0.5, 0, 1)])
    rounder = PointRounder(space, BestPoint((0.3174213, 0.7718282), 1.0, 9))
    while (point := rounder.ask()) is not None:
        a, b = (float(str(value)) for value in point)
        rounder.tell(point, 1.0 if a > 0.25 and 0.769 < b < 0.775 else 0.5)
    assert rounder.point == (0.5, 0.77)
    assert rounder.score == 1.0


def test_rounder_keeps_choices_integers_and_failures():
    space = Space(
        [Tunable("n", 3, 1, 90, is_integer=True), Tunable("m", "a", choices=("a", "b")), Tunable("x", 0, 0, 1)]
    )
    rounder = PointRounder(space, BestPoint((77, "b", 0.1234567), 1.0, 9))
    while (point := rounder.ask()) is not None:
        assert point[:2] == (77, "b")
        rounder.tell(point, None)
    assert rounder.point == (77, "b", 0.1234567)


def test_tuner_returns_round_numbers():
    context, _ = make_evaluated_context(fn(SOURCE, -0.72))
    [child] = mutation.Tuner(budget=60).propose(context)
    assert [item.start for item in find_tunables(str(child.skeleton())).tunables] == [0.3, 0.3]


def test_optimizer_uses_few_digits():
    texts: list[str] = []

    def recorded(x: float, y: float) -> float:
        texts.append(f"{x} {y}")
        return (x - 0.4) ** 2 + (y - 0.6) ** 2

    minimize(recorded, [Tunable("x", 0.9, 0, 1), Tunable("y", 0.9, 0, 1)], budget=12)
    assert max(map(len, texts[:10])) <= len("0.123 0.345")

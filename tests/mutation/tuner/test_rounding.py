"""Round numbers: fewer digits wherever the score does not fall."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import mutation
from atoll.mutation.tuner import BestPoint, Space, Tunable, find_tunables, minimize, space
from atoll.mutation.tuner.rounding import PointRounder
from tests.mutation.tasks import fn
from tests.mutation.tuner.test_engine import SOURCE, judged_task


@pytest.mark.parametrize(
    ("low", "high", "made"),
    [(0.2613, 0.3391, 0.3), (9.7, 10.4, 10.0), (-34.2, -33.9, -34.0), (-0.2, 5.0, 0.0), (1e-9, 3e-9, 2e-9)],
)
def test_the_roundest_number_of_a_range_is_found(low, high, made):
    assert space.find_roundest(low, high) == made


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6))
def test_the_roundest_number_lies_in_its_range_and_has_no_more_digits_than_its_ends(one, other):
    low, high = sorted((one, other))
    made = space.find_roundest(low, high)
    assert low <= made <= high
    assert space.count_digits(made) <= max(space.count_digits(low), space.count_digits(high))


def test_numbers_are_rounded_where_the_score_does_not_fall():
    space = Space([Tunable("a", 0.5, 0, 1), Tunable("b", 0.5, 0, 1)])
    rounding = PointRounder(space, BestPoint((0.3174213, 0.7718282), 1.0, 9))
    while (point := rounding.ask()) is not None:
        a, b = (float(str(each)) for each in point)
        rounding.tell(point, 1.0 if a > 0.25 and 0.769 < b < 0.775 else 0.5)
    assert rounding.point == (0.5, 0.77)
    assert rounding.score == 1.0


def test_choices_whole_numbers_and_failures_are_left_alone():
    space = Space(
        [Tunable("n", 3, 1, 90, is_integer=True), Tunable("m", "a", choices=("a", "b")), Tunable("x", 0, 0, 1)]
    )
    rounding = PointRounder(space, BestPoint((77, "b", 0.1234567), 1.0, 9))
    while (point := rounding.ask()) is not None:
        assert point[:2] == (77, "b")
        rounding.tell(point, None)
    assert rounding.point == (77, "b", 0.1234567)


def test_a_step_ends_on_a_round_number():
    given_task, _ = judged_task(fn(SOURCE, -0.72))
    [child] = mutation.Tuner(budget=60).propose(given_task)
    assert [each.start for each in find_tunables(str(child.skeleton())).tunables] == [0.3, 0.3]


def test_a_search_writes_no_more_digits_than_it_needs():
    spelled: list[str] = []

    def noted(x: float, y: float) -> float:
        spelled.append(f"{x} {y}")
        return (x - 0.4) ** 2 + (y - 0.6) ** 2

    minimize(noted, [Tunable("x", 0.9, 0, 1), Tunable("y", 0.9, 0, 1)], budget=12)
    assert max(len(each) for each in spelled[:10]) <= len("0.123 0.345")

"""The search itself: few evaluations, every kind of value, the same from the same seed."""

import math
from typing import Any

import pytest

from atoll import errors
from atoll.mutation.tuner import Optimizer, Tunable, maximize, minimize


def bowl(*values: float) -> float:
    return sum((value - 0.3 - 0.1 * place) ** 2 for place, value in enumerate(values))


def watched(points: list[Any], fn: Any = lambda *point: 0.0) -> Any:
    """Returns a function that also notes what it was called with."""

    def called(*point: Any) -> float:
        points.append(point)
        return float(fn(*point))

    return called


def cube(size: int) -> list[Tunable]:
    return [Tunable(f"x{place}", 0.9, 0.0, 1.0) for place in range(size)]


def test_the_start_is_the_first_guess():
    asked: list[Any] = []
    minimize(watched(asked, bowl), cube(3), budget=5)
    assert asked[0] == (0.9, 0.9, 0.9)


@pytest.mark.parametrize(("size", "budget", "error"), [(1, 20, 1e-6), (2, 30, 1e-3), (6, 50, 0.05)])
def test_a_bowl_is_found_with_few_evaluations(size, budget, error):
    found = minimize(bowl, cube(size), budget=budget)
    assert found.score is not None
    assert found.score < error
    assert found.evaluations <= budget


def test_the_same_seed_asks_for_the_same_points():
    def asked(seed: int) -> list[Any]:
        points: list[Any] = []
        minimize(watched(points, bowl), cube(3), budget=20, seed=seed)
        return points

    assert asked(1) == asked(1)
    assert asked(1) != asked(2)


def test_no_point_is_asked_for_twice_and_all_are_inside():
    space = [
        Tunable("n", 3, 1, 6, is_integer=True),
        Tunable("m", "a", choices=("a", "b", "c")),
        Tunable("x", 0.5, 0, 1),
    ]
    points: list[Any] = []
    maximize(watched(points), space, budget=40)
    assert len(set(points)) == len(points) == 40
    assert all(n in range(1, 7) and type(n) is int and m in "abc" and 0 <= x <= 1 for n, m, x in points)


def test_whole_numbers_and_choices_are_found():
    space = [Tunable("n", 3, 1, 30, is_integer=True), Tunable("mode", "a", choices=("a", "b", "c"))]
    found = maximize(lambda n, mode: -abs(n - 22) - 5 * (mode != "c"), space, budget=45)
    assert found.point == (22, "c")


def test_one_whole_number_is_bracketed_and_the_search_ends_by_itself():
    found = maximize(lambda n: -((n - 17) ** 2), [Tunable("n", 2, 0, 100, is_integer=True)], budget=40)
    assert found.point == (17,)


def test_a_small_space_is_tried_whole():
    tried: list[Any] = []
    space = [Tunable("a", False, choices=(False, True)), Tunable("n", 1, 1, 3, is_integer=True)]
    found = maximize(watched(tried), space, budget=100)
    assert len(tried) == 6
    assert found.evaluations == 6


def test_a_range_over_orders_of_magnitude_is_searched_by_its_logarithm():
    found = minimize(lambda x: (math.log10(x) + 4) ** 2, [Tunable("rate", 0.1, 1e-6, 1.0)], budget=20)
    assert found.score is not None
    assert found.score < 1e-3


def test_points_that_fail_are_avoided():
    found = minimize(lambda *x: None if x[0] > 0.5 else bowl(*x), cube(2), budget=30)
    assert found.score is not None
    assert found.score < 0.01


def test_nothing_but_failures_leaves_the_start():
    found = minimize(lambda *x: None, cube(2), budget=8)
    assert found == ((0.9, 0.9), None, 8)


def test_patience_stops_early():
    assert maximize(lambda *x: 0.0, cube(3), budget=50, patience=7).evaluations == 8


def test_many_evaluations_are_left_to_cma_es():
    search = Optimizer(cube(50))
    for _ in range(300):
        point = search.ask()
        assert point is not None
        search.tell(point, -sum((float(str(value)) - 0.4) ** 2 for value in point))
    assert search.best.score is not None
    assert search.best.score > -6.0  # the start has -12.5


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: Tunable("decay", 0.5, 1, 0), "Tunable decay has its bounds reversed, 1 to 0: write the lower first"),
        (lambda: Tunable("decay", 2.0, 0, 1), "decay is 2, outside of 0 to 1"),
        (lambda: Tunable("decay", "x", 0, 1), "decay is 'x': between bounds it must be a number"),
        (lambda: Tunable("mode", "z", choices=("a", "b")), "mode is 'z': it must be one of"),
        (lambda: Tunable("decay", 0.5, 0, math.inf), "give finite bounds"),
        (lambda: Optimizer([]), "nothing to tune"),
    ],
)
def test_a_bad_tunable_is_named_in_one_sentence(bad, message):
    with pytest.raises(errors.SetupError, match=message) as error:
        bad()
    assert str(error.value).count(". ") == 0

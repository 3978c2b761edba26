"""Optimizer: few evaluations, all kinds of values, the same points for the same seed."""

import math
from typing import Any

import pytest

from atoll import errors
from atoll.mutation.tuner import Optimizer, Tunable, maximize, minimize


def bowl(*values: float) -> float:
    return sum((value - 0.3 - 0.1 * index) ** 2 for index, value in enumerate(values))


def record_calls(points: list[Any], fn: Any = lambda *point: 0.0) -> Any:
    """Returns a function that records its arguments."""

    def recorded(*point: Any) -> float:
        points.append(point)
        return float(fn(*point))

    return recorded


def cube(size: int) -> list[Tunable]:
    return [Tunable(f"x{index}", 0.9, 0.0, 1.0) for index in range(size)]


def test_first_point_is_the_start():
    points: list[Any] = []
    minimize(record_calls(points, bowl), cube(3), budget=5)
    assert points[0] == (0.9, 0.9, 0.9)


@pytest.mark.parametrize(("size", "budget", "error"), [(1, 20, 1e-6), (2, 30, 1e-3), (6, 50, 0.05)])
def test_minimize_finds_bowl_with_few_evaluations(size, budget, error):
    result = minimize(bowl, cube(size), budget=budget)
    assert result.score is not None
    assert result.score < error
    assert result.evaluations <= budget


def test_same_seed_gives_same_points():
    def list_points(seed: int) -> list[Any]:
        points: list[Any] = []
        minimize(record_calls(points, bowl), cube(3), budget=20, seed=seed)
        return points

    assert list_points(1) == list_points(1)
    assert list_points(1) != list_points(2)


def test_points_are_unique_and_in_bounds():
    space = [
        Tunable("n", 3, 1, 6, is_integer=True),
        Tunable("m", "a", choices=("a", "b", "c")),
        Tunable("x", 0.5, 0, 1),
    ]
    points: list[Any] = []
    maximize(record_calls(points), space, budget=40)
    assert len(set(points)) == len(points) == 40
    assert all(n in range(1, 7) and type(n) is int and m in "abc" and 0 <= x <= 1 for n, m, x in points)


def test_maximize_finds_integers_and_choices():
    space = [Tunable("n", 3, 1, 30, is_integer=True), Tunable("mode", "a", choices=("a", "b", "c"))]
    result = maximize(lambda n, mode: -abs(n - 22) - 5 * (mode != "c"), space, budget=45)
    assert result.point == (22, "c")


def test_single_integer_is_bracketed():
    result = maximize(lambda n: -((n - 17) ** 2), [Tunable("n", 2, 0, 100, is_integer=True)], budget=40)
    assert result.point == (17,)


def test_small_space_is_searched_completely():
    points: list[Any] = []
    space = [Tunable("a", False, choices=(False, True)), Tunable("n", 1, 1, 3, is_integer=True)]
    result = maximize(record_calls(points), space, budget=100)
    assert len(points) == 6
    assert result.evaluations == 6


def test_wide_range_uses_logarithmic_scale():
    result = minimize(lambda x: (math.log10(x) + 4) ** 2, [Tunable("rate", 0.1, 1e-6, 1.0)], budget=20)
    assert result.score is not None
    assert result.score < 1e-3


def test_optimizer_avoids_failures():
    result = minimize(lambda *x: None if x[0] > 0.5 else bowl(*x), cube(2), budget=30)
    assert result.score is not None
    assert result.score < 0.01


def test_only_failures_return_the_start():
    result = minimize(lambda *x: None, cube(2), budget=8)
    assert result == ((0.9, 0.9), None, 8)


def test_patience_stops_early():
    assert maximize(lambda *x: 0.0, cube(3), budget=50, patience=7).evaluations == 8


def test_many_evaluations_use_cma_es():
    search = Optimizer(cube(50))
    for _ in range(300):
        point = search.ask()
        assert point is not None
        search.tell(point, -sum((float(str(value)) - 0.4) ** 2 for value in point))
    assert search.best.score is not None
    assert search.best.score > -6.0  # the start scores -12.5


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (lambda: Tunable("decay", 0.5, 1, 0), "Tunable decay has reversed bounds, 1 to 0. Write the lower one first"),
        (lambda: Tunable("decay", 2.0, 0, 1), "decay is 2, outside of 0 to 1"),
        (lambda: Tunable("decay", "x", 0, 1), "decay is 'x'. With bounds it must be a number"),
        (lambda: Tunable("mode", "z", choices=("a", "b")), "mode is 'z'. It must be one of"),
        (lambda: Tunable("decay", 0.5, 0, math.inf), "Set finite bounds"),
        (lambda: Optimizer([]), "The space is empty"),
    ],
)
def test_invalid_tunable_is_rejected(bad, message):
    with pytest.raises(errors.SetupError, match=message) as error:
        bad()
    assert "\n" not in str(error.value)

"""Regressor, on generated data."""

from typing import Any

import numpy as np
import pytest

from atoll import errors, llmsr
from atoll.llmsr.laws import result, table, view_law
from atoll.llmsr.laws.regressor import Extrapolation

X = np.random.default_rng(0).uniform([-2.0, 0.5], [2.0, 4.0], (200, 2))


def law(x: Any) -> Any:
    return 1.5 * x[:, 0] * x[:, 1] - 0.8 * np.cos(2.0 * x[:, 1])


@pytest.fixture(scope="module")
def fitted() -> llmsr.Regressor:
    return llmsr.regress(X, law(X), names=["a", "b c"], steps=40, seed=0)


def test_regressor_finds_exact_law(fitted):
    assert fitted.error_ < 1e-20
    far = np.random.default_rng(1).uniform([5.0, 5.0], [9.0, 9.0], (100, 2))
    with pytest.warns(Extrapolation):
        assert fitted.predict(far) == pytest.approx(law(far), rel=1e-6)
    assert fitted.score(X, law(X)) == pytest.approx(1.0)


def test_law_uses_names_of_data(fitted):
    assert "b_c" in fitted.law
    assert fitted.names_ == ["a", "b_c"]


def test_repr_shows_law(fitted):
    assert fitted.law in repr(fitted)
    assert "not fitted" in repr(llmsr.Regressor())


def test_front_error_falls_with_size(fitted):
    sizes, errors_by_size = [size for size, _, _ in fitted.front_], [error for _, error, _ in fitted.front_]
    assert sizes == sorted(set(sizes))
    assert errors_by_size == sorted(errors_by_size, reverse=True)
    assert fitted.law in [text for _, _, text in fitted.front_]


def test_same_seed_and_steps_give_same_law():
    laws = [llmsr.regress(X, law(X), steps=5, seed=3).law for _ in range(2)]
    assert laws[0] == laws[1]


def test_noise_is_not_fitted():
    rng = np.random.default_rng(2)
    x = rng.uniform(-2.0, 2.0, (120, 1))
    noisy = 3.0 * x[:, 0] + rng.normal(0.0, 0.5, 120)
    fitted = llmsr.regress(x, noisy, steps=25)
    assert fitted.law_.size < 25
    with pytest.warns(Extrapolation):
        assert fitted.predict(np.array([[3.0]]))[0] == pytest.approx(9.0, abs=2.5)


@pytest.mark.parametrize("unit", [1e-80, 1e-8, 1e8, 1e80])
def test_law_does_not_depend_on_units(unit):
    fitted = llmsr.regress(unit * X[:, :1], 3.0 * X[:, 0], steps=4)
    assert fitted.predict(unit * X[:3, :1]) == pytest.approx(3.0 * X[:3, 0])


def test_variable_with_two_values():
    fitted = llmsr.regress([[0.0], [1.0]] * 10, [2.0, 5.0] * 10, steps=8)
    assert fitted.predict([[0.0], [1.0]]) == pytest.approx([2.0, 5.0])


def test_regressor_follows_scikit_learn():
    regressor = llmsr.Regressor(seconds=1.0, seed=4)
    copy = llmsr.Regressor(**regressor.get_params())
    assert copy.get_params() == regressor.get_params()
    assert regressor.set_params(steps=3) is regressor
    with pytest.raises(errors.SetupError, match="Option depth does not exist"):
        regressor.set_params(depth=3)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        ([[1.0], [np.nan]] * 8, [1.0, 2.0] * 8, "x0 is nan in row 2"),
        ([[1.0], [2.0]] * 8, [1.0] * 16, "the target is 1.0 in every row"),
        ([[1.0], [1.0]] * 8, [1.0, 2.0] * 8, "x0 is 1.0 in every row"),
        ([[1.0], [2.0]] * 8, [1.0, 1e200] * 8, "Use other units"),
        ([[1.0], [2.0]], [1.0, 2.0], "2 rows, fewer than a law has constants"),
        ([[1.0], [2.0]] * 8, [1.0, 2.0], "16 rows and y has 2 values"),
        ([1.0, 2.0], [1.0, 2.0], r"the shape \(2,\)"),
        ([["a"], ["b"]], [1.0, 2.0], "not a table of numbers"),
    ],
)
def test_unusable_data_is_rejected(x, y, message):
    with pytest.raises(errors.SetupError, match=message):
        llmsr.regress(x, y, steps=1)


def test_predict_checks_law_and_columns(fitted):
    with pytest.raises(errors.SetupError, match=r"Call fit\(X, y\) first"):
        llmsr.Regressor().predict(X)
    with pytest.raises(errors.SetupError, match=r"3 columns\. The law needs 2"):
        fitted.predict(np.ones((2, 3)))


def test_noise_that_grows_with_the_target_is_not_fitted():
    rng = np.random.default_rng(5)
    x = np.column_stack([rng.uniform(1, 10, 120), rng.uniform(1, 20, 120), rng.uniform(0.5, 5, 120)])
    y = x[:, 0] * x[:, 1] ** 2 / x[:, 2] * (1 + 0.02 * rng.standard_normal(120))
    fitted = llmsr.regress(x, y, steps=40, names=["mass", "speed", "radius"])
    assert fitted.law in ("mass*speed**2/radius", "speed**2*mass/radius")


@pytest.mark.parametrize(("power", "offset"), [(0.0, 0.0), (0.5, 0.0), (1.0, 0.0), (0.0, -400.0)])
def test_noise_is_estimated_by_its_growth(power, offset):
    rng = np.random.default_rng(1)
    x = rng.uniform(1.0, 30.0, 200)
    right = x * x
    y = right + 0.03 * right**power * rng.standard_normal(200) + offset
    data = table.Table(["x"], "y", x[:, None], y)
    x_tree = ("x", 0)
    laws = [
        view_law.TreeLaw(item)
        for item in (("+", ("*", x_tree, x_tree), ("c", offset)), ("+", ("*", x_tree, ("c", 20.0)), ("c", offset)))
    ]
    candidates = [result.LawCandidate(item, data.rows.error(y - item.predict(data.rows.columns))) for item in laws]
    found_power, rows = result.estimate_noise(candidates, data)
    assert found_power == power
    assert (rows.noise is None) == (power == 0.0)

"""Laws from data, on laws of our own making."""

from typing import Any

import numpy as np
import pytest

from atoll import errors, llmsr

X = np.random.default_rng(0).uniform([-2.0, 0.5], [2.0, 4.0], (200, 2))


def made(x: Any) -> Any:
    return 1.5 * x[:, 0] * x[:, 1] - 0.8 * np.cos(2.0 * x[:, 1])


@pytest.fixture(scope="module")
def found() -> llmsr.Regressor:
    return llmsr.regress(X, made(X), names=["a", "b c"], steps=40, seed=0)


def test_a_law_is_found_exactly_and_holds_far_outside_of_the_data(found):
    assert found.error_ < 1e-20
    far = np.random.default_rng(1).uniform([5.0, 5.0], [9.0, 9.0], (100, 2))
    assert found.predict(far) == pytest.approx(made(far), rel=1e-6)
    assert found.score(X, made(X)) == pytest.approx(1.0)


def test_the_law_is_told_in_the_names_of_the_data(found):
    assert "b_c" in found.law
    assert list(found.feature_names_in_) == ["a", "b_c"]


def test_it_shows_its_law(found):
    assert found.law in repr(found)
    assert "not fitted" in repr(llmsr.Regressor())


def test_the_front_falls_in_error_as_it_grows_in_size(found):
    sizes, falls = [size for size, _, _ in found.front_], [error for _, error, _ in found.front_]
    assert sizes == sorted(set(sizes))
    assert falls == sorted(falls, reverse=True)
    assert found.law in [text for _, _, text in found.front_]


def test_the_same_seed_and_steps_give_the_same_law():
    laws = [llmsr.regress(X, made(X), steps=5, seed=3).law for _ in range(2)]
    assert laws[0] == laws[1]


def test_noise_is_not_taken_for_a_law():
    rng = np.random.default_rng(2)
    x = rng.uniform(-2.0, 2.0, (120, 1))
    noisy = 3.0 * x[:, 0] + rng.normal(0.0, 0.5, 120)
    law = llmsr.regress(x, noisy, steps=25)
    assert law.law_.size < 25
    assert law.predict(np.array([[3.0]]))[0] == pytest.approx(9.0, abs=2.5)


@pytest.mark.parametrize("unit", [1e-80, 1e-8, 1e8, 1e80])
def test_the_units_of_a_variable_do_not_matter(unit):
    found = llmsr.regress(unit * X[:, :1], 3.0 * X[:, 0], steps=4)
    assert found.predict(unit * X[:3, :1]) == pytest.approx(3.0 * X[:3, 0])


def test_a_variable_may_have_two_values_only():
    found = llmsr.regress([[0.0], [1.0]] * 10, [2.0, 5.0] * 10, steps=8)
    assert found.predict([[0.0], [1.0]]) == pytest.approx([2.0, 5.0])


def test_it_has_the_manners_of_scikit_learn():
    regressor = llmsr.Regressor(seconds=1.0, seed=4)
    again = llmsr.Regressor(**regressor.get_params())
    assert again.get_params() == regressor.get_params()
    assert regressor.set_params(steps=3) is regressor
    with pytest.raises(errors.SetupError, match="no option depth"):
        regressor.set_params(depth=3)


@pytest.mark.parametrize(
    ("x", "y", "said"),
    [
        ([[1.0], [np.nan]] * 8, [1.0, 2.0] * 8, "x0 is nan in row 2"),
        ([[1.0], [2.0]] * 8, [1.0] * 16, "the target is 1.0 in every row"),
        ([[1.0], [1.0]] * 8, [1.0, 2.0] * 8, "x0 is 1.0 in every row"),
        ([[1.0], [2.0]] * 8, [1.0, 1e200] * 8, "use other units"),
        ([[1.0], [2.0]], [1.0, 2.0], "2 rows, fewer than a law has constants"),
        ([[1.0], [2.0]] * 8, [1.0, 2.0], "16 rows, and y 2 values"),
        ([1.0, 2.0], [1.0, 2.0], r"the shape \(2,\)"),
        ([["a"], ["b"]], [1.0, 2.0], "no table of numbers"),
    ],
)
def test_data_that_nothing_can_be_learnt_from_is_named(x, y, said):
    with pytest.raises(errors.SetupError, match=said):
        llmsr.regress(x, y, steps=1)


def test_a_prediction_needs_a_law_and_its_columns(found):
    with pytest.raises(errors.SetupError, match=r"call fit\(X, y\) first"):
        llmsr.Regressor().predict(X)
    with pytest.raises(errors.SetupError, match="3 columns, and the law was found from 2"):
        found.predict(np.ones((2, 3)))

"""Functions that can only be called."""

import math
from random import Random

import numpy as np
import pytest

from atoll.llmsr import fit

X = np.random.default_rng(0).uniform(0.5, 3.0, (700, 1))


def fitted(fn, target, num_params):
    return fit.fit_callable(fn, fit.Data(("x",), X, target), num_params, rng=Random(0))


def test_a_loop_is_fitted_by_differences_and_says_so():
    def law(x, params):
        total = np.zeros_like(x)
        for place in range(3):
            total = total + params[place] * x**place
        return total

    found = fitted(law, 1 - 2 * X[:, 0] + 0.5 * X[:, 0] ** 2, 3)
    assert found.params == pytest.approx((1, -2, 0.5), rel=1e-6)
    assert not found.exact_jacobian


def test_arithmetic_errors_spoil_a_start_and_not_the_function():
    def law(x, params):
        return x * math.log(params[0] - 1.0)

    assert fitted(law, 2 * X[:, 0], 1).nmse < 1e-12


@pytest.mark.parametrize(
    ("law", "sentence"),
    [
        (lambda x, params: x[:3], "it returned the shape (3,), and not one number for each of 500 rows"),
        (lambda x, params: None, "it returned object values, and not one number for each of 500 rows"),
        (lambda x, params: x * math.nan, "no start gives finite values on every row"),
        (
            lambda x, params: int("one"),
            "no start gives finite values on every row (ValueError: invalid literal for int() with base 10: 'one')",
        ),
    ],
)
def test_what_cannot_be_fitted_is_a_failure_in_one_sentence(law, sentence):
    assert fitted(law, X[:, 0], 2).failure == sentence

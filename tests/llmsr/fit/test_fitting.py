"""Fitting: what is found, from which starts, and what cannot be."""

from random import Random

import numpy as np
import pytest

from atoll.llmsr import fit

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 3.0, (400, 2))


def data(target, names=("x", "v")):
    return fit.Data(names, X, target)


def fitted(source, target, **options):
    given = data(target)
    return fit.fit(fit.parse(source, given.names).expression, given, rng=Random(1), **options)


def test_linear_parameters_are_solved_without_a_start():
    found = fitted("params[0]*x + params[1]*v**2 - params[2]", 2 * X[:, 0] - 3 * X[:, 1] ** 2 - 5)
    assert found.params == pytest.approx((2, -3, 5), rel=1e-12)
    assert (found.num_starts, found.nmse < 1e-28, found.rows) == (0, True, 400)


@pytest.mark.parametrize(
    ("source", "truth"),
    [
        ("params[0]*np.exp(params[1]*x) + params[2]", (1.5, -0.7, 0.3)),
        ("params[0]*np.sin(params[1]*x + params[2])", (2.0, 2.5, 0.4)),
        ("params[0]*x/(params[1] + v**2)", (1.2, 0.8)),
        ("params[0]*np.exp(-(x - params[1])**2/params[2])", (1.0, 0.5, 0.8)),
        ("params[0]*np.tanh(params[1]*(x - params[2])) + params[3]*v", (1.0, 3.0, 0.5, 2.0)),
        ("params[0]*np.abs(x - params[1])**params[2]", (1.3, 0.21, 1.7)),
    ],
)
def test_a_law_is_found_from_its_own_form(source, truth):
    expression = fit.parse(source, ("x", "v")).expression
    target = fit.predict(expression, truth, X)
    assert fitted(source, target).nmse < 1e-20

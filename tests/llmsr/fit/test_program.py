"""Program: values and derivatives of every operation."""

import numpy as np
import pytest

from atoll.llmsr import fit
from atoll.llmsr.fit import algebra, expression

X = np.random.default_rng(0).uniform(0.2, 0.9, (40, 2))
DATA = fit.Data(("x", "v"), X, np.zeros(40))


def check_gradient(expression, params):
    program = fit.Program(expression)
    params = np.array(params)
    exact = program.compute_gradient(DATA, params)
    for row, index in enumerate(program.params):
        step = np.zeros(len(params))
        step[index] = 1e-6
        difference = (program.evaluate(DATA, params + step) - program.evaluate(DATA, params - step)) / 2e-6
        np.testing.assert_allclose(exact[row], difference, rtol=2e-6, atol=1e-8)


@pytest.mark.parametrize("op", expression.UNARY)
def test_unary_derivative_matches_differences(op):
    inner = fit.Binary("*", fit.Parameter(0), fit.Variable(0))
    shift = fit.Binary("+", inner, fit.Constant(1.0)) if op == "arccosh" else inner
    check_gradient(fit.Unary(op, fit.Binary("+", shift, fit.Constant(0.013))), [0.71])


@pytest.mark.parametrize("op", expression.BINARY)
def test_binary_derivative_matches_differences(op):
    left = fit.Binary("*", fit.Parameter(0), fit.Variable(0))
    right = fit.Binary("+", fit.Parameter(1), fit.Variable(1))
    check_gradient(fit.Binary(op, left, right), [0.71, 0.33])


def test_where_derivative():
    text = "np.where(x < 0.5, params[0]*x**2, np.sin(params[0]*v) + params[1]) * params[1]"
    check_gradient(fit.parse(text, ("x", "v")).expression, [0.71, 0.33])


def test_common_subexpression_is_computed_once():
    shared = fit.Unary("exp", fit.Binary("*", fit.Parameter(0), fit.Variable(0)))
    assert len(fit.Program(fit.Binary("*", shared, fit.Unary("sin", shared))).steps) == 4


def test_values_without_parameters_are_cached():
    data = fit.Data(("x", "v"), X, np.zeros(40))
    term = fit.Unary("sin", fit.Binary("*", fit.Variable(0), fit.Variable(1)))
    assert data.evaluate(term) is data.evaluate(fit.Unary("sin", fit.Binary("*", fit.Variable(0), fit.Variable(1))))


@pytest.mark.parametrize("exponent", [-3.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, 16.0])
def test_small_powers_are_products(exponent):
    product = algebra.make_power(fit.Variable(0), exponent)
    assert product is not None
    np.testing.assert_allclose(fit.predict(product, (), X), X[:, 0] ** exponent, rtol=1e-13)


def test_other_powers_use_numpy():
    assert algebra.make_power(fit.Variable(0), 1.37) is None
    values = fit.predict(fit.Binary("**", fit.Variable(0), fit.Constant(1.37)), (), X)
    np.testing.assert_allclose(values, X[:, 0] ** 1.37, rtol=1e-14)


@pytest.mark.parametrize(
    ("text", "linear", "nonlinear"),
    [
        ("params[0]*x + params[1]", {0, 1}, ()),
        ("params[0]*np.exp(params[1]*x) - params[2]*v", {0, 2}, (1,)),
        ("(params[0]*x + params[1])/(1 + params[2]*x)", {0, 1}, (2,)),
        ("params[0]*(x + params[1]*v)", {0}, (1,)),
        ("params[0]*params[0]*x + params[1]", {1}, (0,)),
        ("-(params[0] - x)/2 + np.sin(params[0])", set(), (0,)),
    ],
)
def test_split_finds_linear_parameters(text, linear, nonlinear):
    expression = fit.parse(text, ("x", "v")).expression
    split = algebra.split(expression)
    assert (set(split.terms), split.nonlinear) == (linear, nonlinear)
    params = [0.7, -0.4, 1.3]
    total = sum(params[index] * fit.predict(term, params, X) for index, term in split.terms.items())
    remainder = fit.predict(split.remainder, params, X) if split.remainder else 0.0
    np.testing.assert_allclose(total + remainder, fit.predict(expression, params, X), rtol=1e-12)

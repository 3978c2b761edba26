"""fit: results, starts and failures."""

from random import Random

import numpy as np
import pytest

from atoll.llmsr import fit
from atoll.llmsr.fit import expression

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 3.0, (400, 2))


def make_data(target, names=("x", "v")):
    return fit.Data(names, X, target)


def fit_source(source, target, **options):
    data = make_data(target)
    return fit.fit(fit.parse(source, data.names).expression, data, rng=Random(1), **options)


def test_linear_parameters_need_no_start():
    result = fit_source("params[0]*x + params[1]*v**2 - params[2]", 2 * X[:, 0] - 3 * X[:, 1] ** 2 - 5)
    assert result.params == pytest.approx((2, -3, 5), rel=1e-12)
    assert (result.num_starts, result.nmse < 1e-28, result.rows) == (0, True, 400)


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
def test_fit_finds_law_from_its_form(source, truth):
    expression = fit.parse(source, ("x", "v")).expression
    target = fit.predict(expression, truth, X)
    assert fit_source(source, target).nmse < 1e-20


def test_fit_skips_starts_that_are_not_finite():
    # At ones, the start of the published fitter, this divides by zero.
    source = "params[0]*x/(params[1] - params[2] + 0*v)"
    result = fit_source(source, 3 * X[:, 0])
    assert result.failure is None
    assert result.nmse < 1e-20


def test_fit_with_only_warm_start():
    source = "params[0]*np.sin(params[1]*x)"
    target = 2 * np.sin(2.5 * X[:, 0])
    result = fit_source(source, target, num_starts=0, warm_start=(1.0, 2.4))
    assert result.params == pytest.approx((2, 2.5))
    assert result.num_residuals < 15


def test_fit_uses_requested_number_of_rows():
    assert fit_source("params[0]*np.exp(params[1]*x)", np.exp(X[:, 0]), num_rows=100).rows == 100


def test_equal_terms_share_coefficient():
    result = fit_source("params[0]*x + params[1]*x + params[2]*(2*x)", 6 * X[:, 0])
    assert result.nmse < 1e-24
    assert result.params[0] + result.params[1] + 2 * result.params[2] == pytest.approx(6)


def test_unused_parameters_are_one():
    assert fit_source("params[0]*x + params[3]", 2 * X[:, 0]).params == pytest.approx((2, 1, 1, 0), abs=1e-12)


def test_equation_without_parameters():
    result = fit_source("x*v", X[:, 0] * X[:, 1])
    assert (result.params, result.mse) == ((), 0.0)


@pytest.mark.parametrize(
    ("source", "failure"),
    [
        ("np.log(x)*params[0]", "its values are not finite on every row"),
        ("params[0]*np.exp(params[1]*np.log(x - 100))", "no start gives finite values on every row"),
    ],
)
def test_impossible_fit_is_a_failure(source, failure):
    result = fit_source(source, X[:, 0])
    assert (result.failure, result.nmse) == (failure, float("inf"))


def test_fewer_rows_than_parameters_is_a_failure():
    small = fit.Data(("x", "v"), X[:2], X[:2, 0])
    expression = fit.parse("params[0]*x + params[1]*v + params[2]", small.names).expression
    result = fit.fit(expression, small, rng=Random(0))
    assert result.failure == "it has 3 parameters, but the data has only 2 rows"


def test_missing_column_is_a_failure():
    result = fit.fit(fit.Variable(5), make_data(X[:, 0]), rng=Random(0))
    assert result.failure == "it uses column 5, but the data has columns 0 to 1"


def test_same_seed_gives_same_parameters():
    source, target = "params[0]*np.sin(params[1]*x + params[2])*np.exp(params[3]*v)", np.sin(X[:, 0]) * X[:, 1]
    assert fit_source(source, target) == fit_source(source, target)


def test_fit_redraws_saturated_function():
    # From most starts the step is flat on almost all rows, and the gradient vanishes.
    source = "params[0]*np.tanh(params[1]*(x - params[2]))*np.exp(params[3]*v)/(1 + params[4]*(x - params[5])**2)"
    expression = fit.parse(source, ("x", "v")).expression
    target = fit.predict(expression, (1.0, 2.0, -1.0, 0.5, 3.0, 0.7), X)
    assert fit_source(source, target).nmse < 1e-20


def draw_expression(rng, depth):
    """Returns a random expression with all kinds of nodes."""
    if depth == 0 or rng.random() < 0.1:
        leaves = [fit.Variable(rng.randrange(2)), fit.Parameter(rng.randrange(6)), fit.Constant(rng.gauss(0, 3))]
        return rng.choice(leaves)
    kind, parts = rng.random(), [draw_expression(rng, depth - 1) for _ in range(3)]
    if kind < 0.35:
        return fit.Unary(rng.choice(list(expression.UNARY)), parts[0])
    if kind < 0.95:
        return fit.Binary(rng.choice(list(expression.BINARY)), *parts[:2])
    return fit.Where(*parts)


@pytest.mark.parametrize("seed", range(60))
def test_random_expression_is_fitted_or_fails(seed):
    data, expression = make_data(np.sin(X[:, 0]) * X[:, 1]), draw_expression(Random(seed), 4)
    result = fit.fit(expression, data, rng=Random(seed), rounds=1)
    if result.failure is None:
        error = np.mean((fit.predict(expression, result.params, X) - data.y) ** 2)
        assert result.mse == pytest.approx(error, rel=1e-3, abs=1e-12)

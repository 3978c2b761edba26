"""Fitting: what is found, from which starts, and what cannot be."""

from random import Random

import numpy as np
import pytest

from atoll.llmsr import fit
from atoll.llmsr.fit import operators

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


def test_a_start_that_is_not_finite_is_no_reason_to_give_up():
    # At ones, where the published fitter starts, this divides by zero.
    source = "params[0]*x/(params[1] - params[2] + 0*v)"
    found = fitted(source, 3 * X[:, 0])
    assert found.failure is None
    assert found.nmse < 1e-20


def test_a_warm_start_alone_is_followed():
    source = "params[0]*np.sin(params[1]*x)"
    target = 2 * np.sin(2.5 * X[:, 0])
    found = fitted(source, target, starts=0, warm=(1.0, 2.4))
    assert found.params == pytest.approx((2, 2.5))
    assert found.num_residuals < 15


def test_screening_uses_as_many_rows_as_it_may():
    assert fitted("params[0]*np.exp(params[1]*x)", np.exp(X[:, 0]), rows=100).rows == 100


def test_terms_that_are_alike_share_a_coefficient():
    found = fitted("params[0]*x + params[1]*x + params[2]*(2*x)", 6 * X[:, 0])
    assert found.nmse < 1e-24
    assert found.params[0] + found.params[1] + 2 * found.params[2] == pytest.approx(6)


def test_parameters_that_are_not_used_are_one():
    assert fitted("params[0]*x + params[3]", 2 * X[:, 0]).params == pytest.approx((2, 1, 1, 0), abs=1e-12)


def test_an_equation_without_parameters_is_only_compared():
    found = fitted("x*v", X[:, 0] * X[:, 1])
    assert (found.params, found.mse) == ((), 0.0)


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("np.log(x)*params[0]", "its values are not finite on every row"),
        ("params[0]*np.exp(params[1]*np.log(x - 100))", "no start gives finite values on every row"),
    ],
)
def test_what_cannot_be_fitted_is_a_failure_in_one_sentence(source, sentence):
    found = fitted(source, X[:, 0])
    assert (found.failure, found.nmse) == (sentence, float("inf"))


def test_fewer_rows_than_parameters_is_a_failure():
    small = fit.Data(("x", "v"), X[:2], X[:2, 0])
    expression = fit.parse("params[0]*x + params[1]*v + params[2]", small.names).expression
    found = fit.fit(expression, small, rng=Random(0))
    assert found.failure == "it has 3 parameters, and the data only 2 rows"


def test_a_column_that_the_data_does_not_have_is_a_failure():
    found = fit.fit(fit.Variable(5), data(X[:, 0]), rng=Random(0))
    assert found.failure == "it uses column 5, and the data has 0 to 1"


def test_the_same_seed_gives_the_same_parameters():
    source, target = "params[0]*np.sin(params[1]*x + params[2])*np.exp(params[3]*v)", np.sin(X[:, 0]) * X[:, 1]
    assert fitted(source, target) == fitted(source, target)


def test_a_saturated_function_is_drawn_again():
    # From most starts the step is flat on all rows but a few, and nothing pulls it back.
    source = "params[0]*np.tanh(params[1]*(x - params[2]))*np.exp(params[3]*v)/(1 + params[4]*(x - params[5])**2)"
    expression = fit.parse(source, ("x", "v")).expression
    target = fit.predict(expression, (1.0, 2.0, -1.0, 0.5, 3.0, 0.7), X)
    assert fitted(source, target).nmse < 1e-20


def grown(dice, depth):
    """Returns a random expression of every kind of node."""
    if depth == 0 or dice.random() < 0.1:
        leaves = [fit.Variable(dice.randrange(2)), fit.Parameter(dice.randrange(6)), fit.Constant(dice.gauss(0, 3))]
        return dice.choice(leaves)
    kind, parts = dice.random(), [grown(dice, depth - 1) for _ in range(3)]
    if kind < 0.35:
        return fit.Unary(dice.choice(list(operators.UNARY)), parts[0])
    if kind < 0.95:
        return fit.Binary(dice.choice(list(operators.BINARY)), *parts[:2])
    return fit.Where(*parts)


@pytest.mark.parametrize("seed", range(60))
def test_any_expression_is_fitted_or_a_failure_and_its_error_is_the_one_of_its_parameters(seed):
    given, expression = data(np.sin(X[:, 0]) * X[:, 1]), grown(Random(seed), 4)
    found = fit.fit(expression, given, rng=Random(seed), rounds=1)
    if found.failure is None:
        error = np.mean((fit.predict(expression, found.params, X) - given.y) ** 2)
        assert found.mse == pytest.approx(error, rel=1e-3, abs=1e-12)

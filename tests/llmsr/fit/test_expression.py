"""Expressions: equal by structure, cheap to look up, written as Python."""

import pickle

import numpy as np
import pytest

from atoll.llmsr import fit

x, v = fit.Variable(0), fit.Variable(1)


def test_expressions_of_one_structure_are_equal_and_hash_alike():
    one, other = (fit.Binary("+", fit.Unary("sin", fit.Variable(0)), fit.Parameter(2)) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert one != fit.Binary("-", fit.Unary("sin", x), fit.Parameter(2))


def test_a_node_knows_its_parameters_size_and_columns():
    node = fit.Where(fit.Binary("<", v, fit.Parameter(3)), fit.Parameter(1), fit.Constant(2))
    assert (sorted(node.params), node.size, node.num_columns) == ([1, 3], 6, 2)


def test_an_expression_survives_pickling():
    node = fit.parse("params[0]*np.where(x < 2, np.exp(-x), params[1]) + v**2", ("x", "v")).expression
    assert pickle.loads(pickle.dumps(node)) == node


@pytest.mark.parametrize(
    "text",
    [
        "-x**2 + (-x)**2",
        "(x - v)**3/(x - (v - params[0]))",
        "x/(v/params[0])/2",
        "2**x**2 - (2**x)**2",
        "np.where(x >= v, -params[0]*x, np.maximum(x, -1.5))",
        "np.clip(x, 0, 1) % 0.3 + np.hypot(x, v) - 1/np.sqrt(1 + x**2)",
    ],
)
def test_the_source_of_an_expression_means_the_expression(text):
    first = fit.parse(text, ("x", "v")).expression
    second = fit.parse(fit.to_source(first, ("x", "v")), ("x", "v")).expression
    table, params = np.random.default_rng(0).uniform(0.1, 2.0, (50, 2)), [0.7]
    expected = eval(text, {"np": np, "x": table[:, 0], "v": table[:, 1], "params": params})
    np.testing.assert_allclose(fit.predict(first, params, table), expected, rtol=1e-13)
    np.testing.assert_allclose(fit.predict(second, params, table), expected, rtol=1e-13)


def test_the_source_can_show_numbers_in_place_of_parameters():
    node = fit.parse("params[0]*x - params[1]", ("x", "v")).expression
    assert fit.to_source(node, ("x", "v"), (2.5, -1.0)) == "(((2.5) * x) - (-1.0))"

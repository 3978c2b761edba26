"""Expressions: equality, properties and Python source."""

import pickle

import numpy as np
import pytest

from atoll.llmsr import fit

x, v = fit.Variable(0), fit.Variable(1)


def test_equal_structure_means_equal_expression():
    first, second = (fit.Binary("+", fit.Unary("sin", fit.Variable(0)), fit.Parameter(2)) for _ in range(2))
    assert first == second
    assert hash(first) == hash(second)
    assert first != fit.Binary("-", fit.Unary("sin", x), fit.Parameter(2))


def test_node_has_parameters_size_and_columns():
    node = fit.Where(fit.Binary("<", v, fit.Parameter(3)), fit.Parameter(1), fit.Constant(2))
    assert (sorted(node.params), node.size, node.num_columns) == ([1, 3], 6, 2)


def test_expression_pickle_roundtrip():
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
def test_expression_source_roundtrip(text):
    first = fit.parse(text, ("x", "v")).expression
    second = fit.parse(fit.to_source(first, ("x", "v")), ("x", "v")).expression
    table, params = np.random.default_rng(0).uniform(0.1, 2.0, (50, 2)), [0.7]
    expected = eval(text, {"np": np, "x": table[:, 0], "v": table[:, 1], "params": params})
    np.testing.assert_allclose(fit.predict(first, params, table), expected, rtol=1e-13)
    np.testing.assert_allclose(fit.predict(second, params, table), expected, rtol=1e-13)


def test_source_with_parameter_values():
    node = fit.parse("params[0]*x - params[1]", ("x", "v")).expression
    assert fit.to_source(node, ("x", "v"), (2.5, -1.0)) == "(((2.5) * x) - (-1.0))"

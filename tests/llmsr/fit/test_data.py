"""Data: checks, subsets and cache."""

import numpy as np
import pytest

from atoll import errors
from atoll.llmsr import fit


@pytest.mark.parametrize(
    ("columns", "table", "target", "message"),
    [
        (("x",), [[1.0], [np.nan]], [1, 2], "x is nan in row 1. Correct or remove the row."),
        (("x",), [[1.0], [2.0]], [1, np.inf], "the target is inf in row 1. Correct or remove the row."),
        (("x",), np.empty((0, 1)), [], "The data has no rows. Add at least one."),
        (("x",), [["a"]], [1], "X is not a table of numbers"),
        (("x", "v"), [[1.0], [2.0]], [1, 2], "The data has 1 columns and 2 names. Name each column."),
        (("x", "x"), [[1.0, 2.0]], [1], "Two of the columns x, x have the same name. Rename one."),
        (("x",), [1.0, 2.0], [1, 2], "X needs rows by columns, y one value per row."),
    ],
)
def test_invalid_data_is_rejected(columns, table, target, message):
    with pytest.raises(errors.SetupError) as caught:
        fit.Data(columns, table, target)
    assert message in str(caught.value)


def test_subsets_are_nested():
    data = fit.Data(("x",), np.arange(100.0)[:, None], np.arange(100.0))
    assert set(data.get_subset(10).y) < set(data.get_subset(40).y) < set(data.y)
    assert data.get_subset(100) is data
    assert data.get_subset(10) is data.get_subset(10)


def test_fit_with_constant_column_is_exact():
    table = np.column_stack([np.arange(50.0), np.full(50, 3.0)])
    data = fit.Data(("x", "c"), table, 2 * table[:, 0] + 6)
    expression = fit.parse("params[0]*x + params[1]*c + params[2]", data.names).expression
    assert fit.fit(expression, data, rng=np.random.default_rng(0)).nmse < 1e-24


def test_cache_is_limited(monkeypatch):
    monkeypatch.setattr("atoll.llmsr.fit.data._CACHE_BYTES", 0)
    data = fit.Data(("x",), np.arange(10.0)[:, None], np.arange(10.0))
    for number in range(200):
        data.evaluate(fit.Binary("+", fit.Variable(0), fit.Constant(number)))
    assert len(data._cache) == 64

"""Data: checked once, in sentences that say what to do."""

import numpy as np
import pytest

from atoll import errors
from atoll.llmsr import fit


@pytest.mark.parametrize(
    ("columns", "table", "target", "sentence"),
    [
        (("x",), [[1.0], [np.nan]], [1, 2], "x is nan in row 1: fill it in or leave the row out."),
        (("x",), [[1.0], [2.0]], [1, np.inf], "the target is inf in row 1: fill it in or leave the row out."),
        (("x",), np.empty((0, 1)), [], "the data has no rows: give at least one."),
        (("x",), [["a"]], [1], "X is no table of numbers"),
        (("x", "v"), [[1.0], [2.0]], [1, 2], "there are 2 names for 1 columns: name each one."),
        (("x", "x"), [[1.0, 2.0]], [1], "two columns have the same name among x, x: rename one."),
        (("x",), [1.0, 2.0], [1, 2], "give rows by columns, and one target per row."),
    ],
)
def test_bad_data_is_named_in_one_sentence(columns, table, target, sentence):
    with pytest.raises(errors.SetupError) as caught:
        fit.Data(columns, table, target)
    assert sentence in str(caught.value)


def test_a_small_subset_is_part_of_a_larger_one():
    data = fit.Data(("x",), np.arange(100.0)[:, None], np.arange(100.0))
    assert set(data.get_subset(10).y) < set(data.get_subset(40).y) < set(data.y)
    assert data.get_subset(100) is data
    assert data.get_subset(10) is data.get_subset(10)


def test_fit_with_constant_column_is_exact():
    table = np.column_stack([np.arange(50.0), np.full(50, 3.0)])
    data = fit.Data(("x", "c"), table, 2 * table[:, 0] + 6)
    expression = fit.parse("params[0]*x + params[1]*c + params[2]", data.names).expression
    assert fit.fit(expression, data, rng=np.random.default_rng(0)).nmse < 1e-24


def test_the_columns_that_are_kept_are_limited(monkeypatch):
    monkeypatch.setattr("atoll.llmsr.fit.data._CACHE_BYTES", 0)
    data = fit.Data(("x",), np.arange(10.0)[:, None], np.arange(10.0))
    for number in range(200):
        data.evaluate(fit.Binary("+", fit.Variable(0), fit.Constant(number)))
    assert len(data._cache) == 64

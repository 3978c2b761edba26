"""Formulas in responses of an LLM, and the description of residuals."""

import numpy as np
import pytest

from atoll.llmsr.laws import formulas, table

NAMES = ("x", "v")


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("law: params[0]*x  # linear", [("params[0] * x", "linear")]),
        ("**Law 1:** `params[0]*x^2`", [("params[0] * x ** 2", "")]),
        ("1) law: y = x/(1 + v)\n2) law: np.sin(x)", [("x / (1 + v)", ""), ("np.sin(x)", "")]),
        ("```python\ndef law_1(x, v, params):\n    return params[0]*v\n```", [("params[0] * v", "")]),
        ("law: x\nlaw: x", [("x", "")]),
        ("law: a*exp(-b*x) + 0.5*v**1.5", [("params[0] * np.exp(-params[1] * x) + params[2] * v ** 1.5", "")]),
        ("law: params[1]*x + c", [("params[1] * x + params[2]", "")]),
        ("Here is one:\n`y = params[0]*sin(x)`", [("params[0] * np.sin(x)", "")]),
        ("- Growth: params[0]*x  # grows", [("params[0] * x", "grows")]),
        ("law: os.system('rm')\nlaw: import sys\nlaw: [x for x in v]\nI would try a law.", []),
        ("", []),
    ],
)
def test_formulas_of_response(response, expected):
    assert formulas.read_formulas(response, NAMES) == expected


def test_long_response_is_limited():
    response = "\n".join(f"law: params[0]*x + {number}" for number in range(1000))
    assert len(formulas.read_formulas(response, NAMES)) == 8


def test_residual_in_words():
    x = np.linspace(0.0, 9.0, 90)[:, None]
    train = table.Table(["x"], "y", x, x[:, 0])
    residual = np.where(x[:, 0] > 6.0, 1.0, 0.0)
    lines = list(formulas.describe_residual(train, residual - residual.mean()))
    assert lines[0] == "- x: too high for small, too high for medium, too low for large values"
    assert lines[1].startswith("- at x = ")

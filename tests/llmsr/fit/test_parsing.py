"""parse: supported, unsupported and invalid equations."""

import pytest

from atoll.llmsr import fit

HEAD = "def equation(x, v, params):\n"


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ('    """A law."""\n    return params[0]*x', "(params[0] * x0)"),
        ("    k = params[1]\n    k += 1\n    return k*v", "((params[1] + 1.0) * x1)"),
        ("    a, b = params[:2]\n    return a + b", "(params[0] + params[1])"),
        ("    a, b = x, params[0]\n    return a - b", "(x0 - params[0])"),
        ("    import numpy as np\n    y: float = np.square(x)\n    return y", "x0**2"),
        ("    return 2*np.pi*x", "(6.283185307179586 * x0)"),
        ("    return abs(x) + np.power(v, 2)", "(np.abs(x0) + x1**(2.0))"),
        ("    return x // 2", "np.floor((x0 / 2.0))"),
    ],
)
def test_parse_converts_statements_to_expression(body, expected):
    assert str(fit.parse(HEAD + body, ("a", "b")).expression) == expected


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("    for i in range(3):\n        x = x + params[i]\n    return x", "line 2 is a loop"),
        ("    if params[0] > 0:\n        return x\n    return v", "line 2 is a branch"),
        ("    return np.dot(x, v)", "it calls np.dot with 2 arguments"),
        ("    return helper(x)", "it calls helper"),
        ("    return x[0]*params[0]", "x[0] cannot be differentiated"),
        ("    return params*x", "params is used without an index"),
        ("    return params[-1]*x", "params[-1] cannot be differentiated"),
    ],
)
def test_parse_names_unsupported_code(body, reason):
    with pytest.raises(fit.UnsupportedEquation) as caught:
        fit.parse(HEAD + body, ("x", "v"))
    assert str(caught.value) == reason


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (HEAD + "    return w*x", "it uses w, which is neither a column (x, v) nor assigned before"),
        (HEAD + "    y = x", "it returns nothing"),
        ("def equation(x, params):\n    return x", "equation takes 1 columns (x), but the data has 2"),
        ("x = 3", "it defines no function; write `def equation(..., params):`"),
        (HEAD + "    return (", "it is not valid Python: '(' was never closed (<unknown>, line 2)"),
    ],
)
def test_parse_names_invalid_equation(source, reason):
    with pytest.raises(fit.InvalidEquation) as caught:
        fit.parse(source, ("x", "v"))
    assert str(caught.value) == reason


def test_parse_rejects_exponential_growth():
    lines = "".join(f"    x = x*x + {index}\n" for index in range(40))
    with pytest.raises(fit.UnsupportedEquation, match="more than 20000 nodes"):
        fit.parse(f"{HEAD}{lines}    return x", ("x", "v"))


def test_parse_rejects_deep_nesting():
    with pytest.raises((fit.UnsupportedEquation, fit.InvalidEquation)):
        fit.parse(f"{HEAD}    return {'(-' * 5000}x{')' * 5000}", ("x", "v"))

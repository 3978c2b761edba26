"""LawEvaluator on equations that are Python text: constants are fitted, the text is never run."""

import numpy as np
import pytest

from atoll import function
from atoll.llmsr import fit
from atoll.llmsr.laws import engine, least_squares, population

NAMES = ("x", "v")
X = np.random.default_rng(0).uniform(-1.0, 2.0, (300, 2))
Y = 3 * np.sin(2 * X[:, 0]) - X[:, 1]
LAW = "def equation(x, v, params):\n    return params[0]*np.sin(params[1]*x) + params[2]*v"
LINEAR = "def equation(x, v, params):\n    return params[0]*x + params[1]*v"


def evaluate(source, target=Y):
    evaluator = engine.LawEvaluator(
        least_squares.Rows(X.T, target, float(target.var())), NAMES, fit.Data(NAMES, X, target)
    )
    return evaluator(function.PyAstSkeleton(source))


def test_evaluator_fits_equation_text_without_running_it():
    evaluation = evaluate("raise SystemExit\n" + LAW)
    assert evaluation.score > 25
    assert [evaluation.metrics[f"params[{index}]"] for index in range(3)] == pytest.approx([3, 2, -1])


def test_score_does_not_depend_on_unit_of_target():
    assert evaluate(LINEAR).score == pytest.approx(evaluate(LINEAR, 1e6 * Y).score)


def test_exact_laws_have_equal_scores():
    assert population.compute_score(0.0) == population.compute_score(1e-33) == 32


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return w", "it uses w, which is neither a column (x, v) nor assigned before"),
        ("return np.log(-x**2)", "its values are not finite on every row"),
        ("for i in range(2):\n        x = x + params[i]\n    return x", "line 2 is a loop"),
        ("return x[:3]", "x[:3]"),
    ],
)
def test_unusable_equation_fails_with_one_sentence(body, message):
    failure = evaluate(f"def equation(x, v, params):\n    {body}").failure
    assert message in failure
    assert "\n" not in failure

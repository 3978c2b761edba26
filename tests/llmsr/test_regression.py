"""Regression: a skeleton's text in, a fit as plain data out."""

import json
from functools import partial

import numpy as np
import pytest

from atoll import function, sandbox
from atoll.llmsr import regression
from atoll.llmsr.laws import population

X = np.random.default_rng(0).uniform(-1.0, 2.0, (300, 2))
Y = 3 * np.sin(2 * X[:, 0]) - X[:, 1]
LAW = "def equation(x, v, params):\n    return params[0]*np.sin(params[1]*x) + params[2]*v"
LOOP = "def equation(x, v, params):\n    for i in range(2):\n        x = x + params[i]*v\n    return x"


def judged(source, target=Y, table=X):
    return regression.Regression(("x", "v"), table, target)(source)


def test_a_law_that_can_be_read_is_never_run():
    found = judged("print('run')\n" + LAW)
    assert found["score"] > 25
    assert found["params"] == pytest.approx([3, 2, -1])
    assert (len(found["scores"]), found["note"]) == (4, "")
    json.dumps(found)


def test_a_loop_is_run_and_the_note_says_so():
    found = judged(LOOP, X[:, 0] + 4 * X[:, 1])
    assert found["note"] == "fitted by differences, which is slow: line 2 is a loop"
    assert sum(found["params"][:2]) == pytest.approx(4)


def test_a_score_is_free_of_the_unit_of_the_target():
    linear = "def equation(x, v, params):\n    return params[0]*x + params[1]*v"
    assert judged(linear)["score"] == pytest.approx(judged(linear, 1e6 * Y)["score"])
    assert judged(linear)["scores"] == judged(linear, 1e6 * Y)["scores"]


def test_exact_laws_have_the_same_score():
    assert population.compute_score(0.0) == population.compute_score(1e-33) == 32


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "def equation(x, v, params):\n    return w",
            "it uses w, which is neither a column (x, v) nor assigned before",
        ),
        ("def equation(x, v, params):\n    return np.log(-x**2)", "its values are not finite on every row"),
    ],
)
def test_a_bad_skeleton_is_a_failure_in_one_sentence(source, sentence):
    assert judged(source) == {"failure": sentence}


def test_a_column_that_never_changes_is_noted():
    table = np.column_stack([X[:, 0], np.ones(len(X))])
    assert judged(LAW, table=table)["note"] == "the same in every row, so nothing can be learnt from it: v"


def test_a_sandbox_judges_skeletons_and_keeps_their_parameters():
    workers = sandbox.ProcessSandbox(partial(regression.Regression, ("x", "v"), X, Y))
    try:
        judge = sandbox.SandboxEvaluator(workers, regression.parse_result)
        found = judge(function.PyAstSkeleton(LAW))
        assert found.metrics["params[1]"] == pytest.approx(2)
        assert "with params = [3, 2, -1]" in found.feedback
        assert judge(function.PyAstSkeleton("def equation(x, v, params):\n    return x[:3]")).failure == (
            "it returned the shape (3,), and not one number for each of 300 rows"
        )
    finally:
        workers.close()

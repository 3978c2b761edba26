"""`ScoreJob`."""

import math
import random
import threading

import numpy as np
import pytest

from atoll import errors
from atoll.sandbox import ScoreJob


def call(skeleton, value):
    return skeleton(value)


def test_each_input_has_a_score():
    assert ScoreJob(call, [1, 4, 9])("def f(x): return x ** 0.5") == [{"score": 1.0}, {"score": 2.0}, {"score": 3.0}]


def test_failed_input_does_not_stop_the_others(capsys):
    scoring = ScoreJob(call, [1, 0, 2, "x"])
    assert scoring("def f(x): return 4 / x") == [
        {"score": 4.0},
        {"failure": "ZeroDivisionError: division by zero (line 1 of the function)"},
        {"score": 2.0},
        {"failure": "TypeError: unsupported operand type(s) for /: 'int' and 'str' (line 1 of the function)"},
    ]


@pytest.mark.parametrize("cause", ["exit(1)", "raise KeyboardInterrupt", "raise MemoryError", "f(x)", "raise Odd"])
def test_any_exception_fails_only_its_input(capsys, cause):
    source = f"class Odd(BaseException):\n    def __str__(self): raise Odd\ndef f(x):\n    if x: {cause}\n    return 1"
    first, second = ScoreJob(call, [1, 0])(source)
    assert "failure" in first
    assert second == {"score": 1.0}


def test_output_shows_the_line_of_the_first_failure(capsys):
    ScoreJob(call, [1, 0, 0])("def f(x):\n    y = x + 1\n    return y / x")
    output = capsys.readouterr().err
    assert output.startswith("input 1:\nTraceback")
    assert 'File "<skeleton>", line 3, in f\n    return y / x' in output
    assert "score_job.py" not in output
    assert output.count("Traceback") == 1


def test_invalid_source_fails_on_every_input(capsys):
    result = ScoreJob(call, [1, 2])("def f(x")
    assert [str(entry["failure"]).partition(":")[0] for entry in result] == ["SyntaxError"] * 2


@pytest.mark.parametrize(
    ("returned", "score"),
    [
        ("np.float32(0.5)", 0.5),
        ("np.int64(3)", 3.0),
        ("np.float64(0.25)", 0.25),
        ("np.bool_(True)", 1.0),
        ("np.array(2.5)", 2.5),
        ("True", 1.0),
        ("7", 7.0),
        ("None", None),
        ("'a text'", "a text"),
        ("[1, 2]", [1, 2]),
    ],
)
def test_scores_are_floats_or_plain_data(returned, score):
    [entry] = ScoreJob(call, [0], {"np": np})(f"def f(x): return {returned}")
    assert entry == {"score": score}
    assert type(entry["score"]) is type(score)


def test_scores_may_be_infinite_or_nan():
    result = ScoreJob(call, ["nan", "-inf"])("def f(x): return float(x)")
    assert [str(entry["score"]) for entry in result] == ["nan", "-inf"]


@pytest.mark.parametrize("returned", ["{1, 2}", "10 ** 400", "object()", "[1j]"])
def test_score_that_is_not_plain_data_fails(capsys, returned):
    [entry] = ScoreJob(call, [0])(f"def f(x): return {returned}")
    assert "failure" in entry


def test_names_are_globals_of_the_function():
    names = {"m": math, "SCALE": 10, "MODE": "fast", "twice": lambda x: 2 * x}
    source = "def f(x): return SCALE * twice(m.sqrt(x)) if MODE == 'fast' else 0"
    assert ScoreJob(call, [4], names)(source) == [{"score": 40.0}]


def test_candidate_cannot_change_inputs_of_others():
    scoring = ScoreJob(call, [[3, 1, 2], np.array([3.0, 1.0])])
    assert scoring("def f(x):\n    x.sort()\n    return x[0]") == [{"score": 1.0}] * 2
    assert scoring("def f(x): return x[0]") == [{"score": 3.0}] * 2


@pytest.mark.parametrize("random_call", ["random.random()", "np.random.rand()"])
def test_every_candidate_gets_the_same_random_numbers(random_call):
    scoring = ScoreJob(call, [0, 0], {"random": random, "np": np})
    first = scoring(f"def f(x): return {random_call}")
    assert scoring(f"def f(x): return {random_call}") == first
    assert first[0] != first[1]


def test_score_job_needs_inputs():
    with pytest.raises(errors.SetupError, match="Pass at least one"):
        ScoreJob(call, [])


def test_unpicklable_inputs_are_shared():
    def locked(skeleton, lock):
        return lock.locked() + skeleton()

    assert ScoreJob(locked, [threading.Lock()])("def f(): return 1") == [{"score": 1.0}]

"""Scores of one input after the other."""

import math
import random
import threading

import numpy as np
import pytest

from atoll import errors
from atoll.sandbox import ScoreJob


def call(skeleton, value):
    return skeleton(value)


def test_every_input_gets_its_score():
    assert ScoreJob(call, [1, 4, 9])("def f(x): return x ** 0.5") == [{"score": 1.0}, {"score": 2.0}, {"score": 3.0}]


def test_an_input_that_fails_does_not_stop_the_others(capsys):
    scoring = ScoreJob(call, [1, 0, 2, "x"])
    assert scoring("def f(x): return 4 / x") == [
        {"score": 4.0},
        {"failure": "ZeroDivisionError: division by zero (line 1 of the function)"},
        {"score": 2.0},
        {"failure": "TypeError: unsupported operand type(s) for /: 'int' and 'str' (line 1 of the function)"},
    ]


@pytest.mark.parametrize("cause", ["exit(1)", "raise KeyboardInterrupt", "raise MemoryError", "f(x)", "raise Odd"])
def test_whatever_is_raised_is_a_failure_of_its_input(capsys, cause):
    source = f"class Odd(BaseException):\n    def __str__(self): raise Odd\ndef f(x):\n    if x: {cause}\n    return 1"
    first, second = ScoreJob(call, [1, 0])(source)
    assert "failure" in first
    assert second == {"score": 1.0}


def test_the_output_shows_the_line_that_failed_first(capsys):
    ScoreJob(call, [1, 0, 0])("def f(x):\n    y = x + 1\n    return y / x")
    shown = capsys.readouterr().err
    assert shown.startswith("input 1:\nTraceback")
    assert 'File "<skeleton>", line 3, in f\n    return y / x' in shown
    assert "scoring.py" not in shown
    assert shown.count("Traceback") == 1


def test_a_source_that_does_not_parse_fails_on_every_input(capsys):
    found = ScoreJob(call, [1, 2])("def f(x")
    assert [str(entry["failure"]).partition(":")[0] for entry in found] == ["SyntaxError"] * 2


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
def test_a_number_becomes_a_float_and_plain_data_stays_as_it_is(returned, score):
    [entry] = ScoreJob(call, [0], {"np": np})(f"def f(x): return {returned}")
    assert entry == {"score": score}
    assert type(entry["score"]) is type(score)


def test_numbers_that_are_not_finite_pass():
    found = ScoreJob(call, ["nan", "-inf"])("def f(x): return float(x)")
    assert [str(entry["score"]) for entry in found] == ["nan", "-inf"]


@pytest.mark.parametrize("returned", ["{1, 2}", "10 ** 400", "object()", "[1j]"])
def test_what_is_no_plain_data_is_a_failure(capsys, returned):
    [entry] = ScoreJob(call, [0])(f"def f(x): return {returned}")
    assert "failure" in entry


def test_names_are_there_without_an_import():
    names = {"m": math, "SCALE": 10, "MODE": "fast", "twice": lambda x: 2 * x}
    source = "def f(x): return SCALE * twice(m.sqrt(x)) if MODE == 'fast' else 0"
    assert ScoreJob(call, [4], names)(source) == [{"score": 40.0}]


def test_a_candidate_that_changes_its_input_spoils_it_for_nobody():
    scoring = ScoreJob(call, [[3, 1, 2], np.array([3.0, 1.0])])
    assert scoring("def f(x):\n    x.sort()\n    return x[0]") == [{"score": 1.0}] * 2
    assert scoring("def f(x): return x[0]") == [{"score": 3.0}] * 2


@pytest.mark.parametrize("dice", ["random.random()", "np.random.rand()"])
def test_every_candidate_has_the_same_dice(dice):
    scoring = ScoreJob(call, [0, 0], {"random": random, "np": np})
    first = scoring(f"def f(x): return {dice}")
    assert scoring(f"def f(x): return {dice}") == first
    assert first[0] != first[1]


def test_without_inputs_there_is_nothing_to_score():
    with pytest.raises(errors.SetupError, match="give at least one"):
        ScoreJob(call, [])


def test_inputs_that_cannot_be_copied_are_shared():
    def locked(skeleton, lock):
        return lock.locked() + skeleton()

    assert ScoreJob(locked, [threading.Lock()])("def f(): return 1") == [{"score": 1.0}]

"""Outputs made in the jail, scores made outside."""

import functools
import json
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from atoll import errors, function, sandbox
from atoll.sandbox import CallJob, IsolatedSandbox, Limits, OutputEvaluator, ProcessSandbox, ScoreJob, plain_values
from atoll.testing.evaluators import CandidateEvaluatorSuite

INPUTS = [(1.0,), (4.0,), (9.0,)]
EXPECTED = [1.0, 2.0, 3.0]
LIMITS = Limits(seconds=20.0, memory_mb=512, output_bytes=10_000)
BOX = IsolatedSandbox if sandbox.get_level(sandbox.probe()) > "L0" else ProcessSandbox


def closeness(output: float, expected: float) -> float:
    return -abs(output - expected)


@pytest.fixture(scope="module")
def box():
    with BOX(functools.partial(CallJob, INPUTS, {"np": np}), LIMITS) as made:
        made.warm()
        yield made


@pytest.fixture
def judge(box):
    return OutputEvaluator(box, closeness, EXPECTED)


def judged(judge, source):
    return judge(function.PyAstSkeleton(source))


class TestOutputsJudge(CandidateEvaluatorSuite):
    @pytest.fixture(autouse=True)
    def _lent(self, box):
        self.box = box

    def make(self):
        return OutputEvaluator(self.box, closeness, EXPECTED)

    def good(self):
        return function.PyAstSkeleton("def f(x): return np.sqrt(x)")


def test_an_output_is_scored_against_what_the_candidate_never_saw(judge):
    assert judged(judge, "def f(x): return np.sqrt(x)").scores == (0.0, 0.0, 0.0)
    assert judged(judge, "def f(x): return x").score == pytest.approx(-8 / 3)


def test_a_candidate_finds_neither_scorer_nor_expected_answers():
    secret = 1234567.25

    def score(output, expected):
        return float(output == expected)

    source = """
def f(x):
    import gc
    low = float(sum([1_000_000, 234_567]))
    found = [each for each in gc.get_objects() if type(each) in (list, tuple, dict) and len(each) < 100]
    return max((e for each in found for e in each if type(e) is float and low < e < low + 1), default=0.0)
"""
    with BOX(functools.partial(CallJob, [(1.0,)]), LIMITS) as made:
        assert judged(OutputEvaluator(made, score, [secret]), source).score == 0.0


def test_patching_what_scores_would_use_changes_no_score(judge):
    source = """
def f(x):
    import builtins, json, math, statistics
    builtins.abs = statistics.fmean = math.fabs = lambda *_: 0
    float.__sub__ if 0 else None
    return 100.0
"""
    assert judged(judge, source).score == pytest.approx(-98.0)
    assert closeness(1.0, 3.0) == -2.0


def test_a_forged_frame_is_scored_like_any_output(box, judge):
    frame = json.dumps([None, False, [{"score": 99.0}] * 3])
    source = f"def f(x):\n    import os\n    os.write(3, ({len(frame)}).to_bytes(8) + {frame.encode()!r}); os._exit(0)"
    if box.level == "L0":
        pytest.skip("its frames have tokens")
    # A score that came out of the jail would be believed if it could be read as one.
    assert judged(judge, source).failure == "input 0: expected an output, not {'score': 99.0}"


def test_an_output_that_cannot_be_scored_is_a_failure(judge):
    found = judged(judge, "def f(x): return 'a text'")
    assert found.failure is not None
    assert found.failure.startswith("input 0: its output cannot be scored: TypeError")


def test_a_failure_of_one_input_may_be_left_out(box):
    source = "def f(x): return x / (x - 1) * 0 + x ** 0.5"
    assert (
        judged(OutputEvaluator(box, closeness, EXPECTED), source).failure
        == "input 0: ZeroDivisionError: float division by zero"
    )
    assert judged(OutputEvaluator(box, closeness, EXPECTED, fmean, partial=True), source).scores == (0.0, 0.0)


BREACHES = {
    "def f(x): return bytearray(2**40)": "it used more than 512 MiB",
    "def f(x): return [open('/dev/null') for _ in range(999)]": "it opened more than 256 files",
    "def f(x): open('/dev/full', 'wb', 0).write(b'x')": "it wrote more than 256 MiB to files",
    "import os\ndef f(x): os.fork()": "it tried what the jail forbids: PermissionError: ",
    "def f(x): raise ValueError(x)": "ValueError: 1",
}


@pytest.mark.skipif(BOX is ProcessSandbox, reason="this machine has no jail")
@pytest.mark.parametrize("job", [CallJob, functools.partial(ScoreJob, lambda skeleton, given: skeleton(*given))])
def test_a_limit_that_breaks_on_one_input_is_named(job):
    with BOX(functools.partial(job, [(1,)]), LIMITS) as made:
        found: list[Any] = [made.run(source).value for source in BREACHES]
    for [entry], failure in zip(found, BREACHES.values(), strict=True):
        assert entry["failure"].startswith(failure)


def test_without_inputs_there_is_nothing_to_call():
    with pytest.raises(errors.SetupError, match="give at least one"):
        CallJob([])


def test_many_inputs_take_one_fork():
    inputs = [(float(each),) for each in range(1000)]
    with BOX(functools.partial(CallJob, inputs), Limits()) as made:
        found = judged(OutputEvaluator(made, closeness, [each for (each,) in inputs]), "def f(x): return x")
    assert found.score == 0.0
    assert len(found.scores) == 1000


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        -3,
        2.5,
        "text",
        [1, [2]],
        {"a": {"b": 1}},
        np.arange(6.0).reshape(2, 3),
        np.array([], dtype=np.int8),
        np.array([1 + 2j]),
        {"x": [np.array([True, False])]},
    ],
    ids=str,
)
def test_what_is_packed_comes_back(value):
    back = plain_values.from_plain(json.loads(json.dumps(plain_values.to_plain(value))))
    np.testing.assert_equal(back, value)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype
        assert back.flags.writeable


def test_a_scalar_of_numpy_becomes_a_number():
    assert plain_values.to_plain(np.float32(1.5)) == 1.5
    assert type(plain_values.to_plain(np.int64(3))) is int
    assert plain_values.to_plain((1, 2)) == [1, 2]


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), {1: 2}, np.array([object()]), np.array(["text"]), print])
def test_what_is_no_plain_data_is_refused(value):
    with pytest.raises(TypeError):
        plain_values.to_plain(value)


@pytest.mark.parametrize(
    "forged",
    [
        ["|O", [1], "gASVAAAAAAAAAAA="],
        ["<f8", [10**12], "AAAA"],
        ["<f8", [-1], ""],
        ["<f8", [1.0], "AAAAAAAAAAA="],
        ["<f8", [1], "!!"],
        ["<f8,<f8", [1], "AAAAAAAAAAA="],
        ["f" * 1000, [1], ""],
    ],
    ids=["an object", "too large", "negative", "no whole number", "no base64", "a record", "no type"],
)
def test_a_forged_array_is_refused(forged):
    with pytest.raises((ValueError, TypeError)):
        plain_values.from_plain({"__array__": forged})

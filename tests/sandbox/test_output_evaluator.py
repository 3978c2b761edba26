"""Outputs that are computed in a sandbox and scored outside, and their conversion to plain data."""

import functools
import json
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from atoll import errors, function, sandbox
from atoll.sandbox import CallJob, IsolatedSandbox, Limits, OutputEvaluator, ProcessSandbox, ScoreJob, plain_values
from atoll.testing.proposers import CandidateEvaluatorSuite

INPUTS = [(1.0,), (4.0,), (9.0,)]
EXPECTED = [1.0, 2.0, 3.0]
LIMITS = Limits(seconds=20.0, memory_mb=512, output_bytes=10_000)
BOX = IsolatedSandbox if sandbox.get_level(sandbox.probe()) > "L0" else ProcessSandbox


def closeness(output: float, expected: float) -> float:
    return -abs(output - expected)


@pytest.fixture(scope="module")
def box():
    with BOX(functools.partial(CallJob, INPUTS, {"np": np}), LIMITS) as box:
        box.warm()
        yield box


@pytest.fixture
def evaluator(box):
    return OutputEvaluator(box, closeness, EXPECTED)


def evaluate(evaluator, source):
    return evaluator(function.PyAstSkeleton(source))


class TestOutputEvaluator(CandidateEvaluatorSuite):
    @pytest.fixture(autouse=True)
    def _lent(self, box):
        self.box = box

    def make(self):
        return OutputEvaluator(self.box, closeness, EXPECTED)

    def good(self):
        return function.PyAstSkeleton("def f(x): return np.sqrt(x)")


def test_outputs_are_scored_outside_the_sandbox(evaluator):
    assert evaluate(evaluator, "def f(x): return np.sqrt(x)").scores == (0.0, 0.0, 0.0)
    assert evaluate(evaluator, "def f(x): return x").score == pytest.approx(-8 / 3)


def test_candidate_cannot_find_expected_answers():
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
    with BOX(functools.partial(CallJob, [(1.0,)]), LIMITS) as box:
        assert evaluate(OutputEvaluator(box, score, [secret]), source).score == 0.0


def test_patched_builtins_do_not_change_scores(evaluator):
    source = """
def f(x):
    import builtins, json, math, statistics
    builtins.abs = statistics.fmean = math.fabs = lambda *_: 0
    float.__sub__ if 0 else None
    return 100.0
"""
    assert evaluate(evaluator, source).score == pytest.approx(-98.0)
    assert closeness(1.0, 3.0) == -2.0


def test_forged_score_is_rejected(box, evaluator):
    frame = json.dumps([None, False, [{"score": 99.0}] * 3])
    source = f"def f(x):\n    import os\n    os.write(3, ({len(frame)}).to_bytes(8) + {frame.encode()!r}); os._exit(0)"
    if box.level == "L0":
        pytest.skip("its frames have tokens")
    assert evaluate(evaluator, source).failure == "input 0: expected an output, not {'score': 99.0}"


def test_output_that_cannot_be_scored_fails(evaluator):
    result = evaluate(evaluator, "def f(x): return 'a text'")
    assert result.failure is not None
    assert result.failure.startswith("input 0: its output cannot be scored: TypeError")


def test_partial_evaluator_ignores_failed_inputs(box):
    source = "def f(x): return x / (x - 1) * 0 + x ** 0.5"
    assert (
        evaluate(OutputEvaluator(box, closeness, EXPECTED), source).failure
        == "input 0: ZeroDivisionError: float division by zero"
    )
    assert evaluate(OutputEvaluator(box, closeness, EXPECTED, fmean, partial=True), source).scores == (0.0, 0.0)


BREACHES = {
    "def f(x): return bytearray(2**40)": "it used more than 512 MiB",
    "def f(x): return [open('/dev/null') for _ in range(999)]": "it opened more than 256 files",
    "def f(x): open('/dev/full', 'wb', 0).write(b'x')": "it wrote more than 256 MiB to files",
    "import os\ndef f(x): os.fork()": "the sandbox does not allow it: PermissionError: ",
    "def f(x): raise ValueError(x)": "ValueError: 1",
}


@pytest.mark.skipif(BOX is ProcessSandbox, reason="needs a sandbox")
@pytest.mark.parametrize("job", [CallJob, functools.partial(ScoreJob, lambda skeleton, args: skeleton(*args))])
def test_violated_limit_of_one_input_is_named(job):
    with BOX(functools.partial(job, [(1,)]), LIMITS) as box:
        result: list[Any] = [box.run(source).value for source in BREACHES]
    for [entry], failure in zip(result, BREACHES.values(), strict=True):
        assert entry["failure"].startswith(failure)


def test_call_job_needs_inputs():
    with pytest.raises(errors.SetupError, match="Pass at least one"):
        CallJob([])


def test_many_inputs_in_one_request():
    inputs = [(float(item),) for item in range(1000)]
    with BOX(functools.partial(CallJob, inputs), Limits()) as box:
        result = evaluate(OutputEvaluator(box, closeness, [item for (item,) in inputs]), "def f(x): return x")
    assert result.score == 0.0
    assert len(result.scores) == 1000


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
def test_plain_values_round_trip(value):
    back = plain_values.from_plain(json.loads(json.dumps(plain_values.to_plain(value))))
    np.testing.assert_equal(back, value)
    if isinstance(value, np.ndarray):
        assert back.dtype == value.dtype
        assert back.flags.writeable


def test_to_plain_converts_numpy_scalars():
    assert plain_values.to_plain(np.float32(1.5)) == 1.5
    assert type(plain_values.to_plain(np.int64(3))) is int
    assert plain_values.to_plain((1, 2)) == [1, 2]


@pytest.mark.parametrize("value", [{1, 2}, b"x", object(), {1: 2}, np.array([object()]), np.array(["text"]), print])
def test_to_plain_rejects_other_types(value):
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
    ids=["object", "too large", "negative", "no integer", "no base64", "record", "no type"],
)
def test_from_plain_rejects_malformed_arrays(forged):
    with pytest.raises((ValueError, TypeError)):
        plain_values.from_plain({"__array__": forged})

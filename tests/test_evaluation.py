"""validate: every invariant holds for any result of an evaluator."""

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll import evaluation
from atoll.candidate import EMPTY
from atoll.evaluation import BlobRef, Cost, Evaluation


class Raising:
    def __init__(self, error: BaseException) -> None:
        self._error = error

    def __float__(self) -> float:
        raise self._error

    def __repr__(self) -> str:
        return "Raising()"


class Unspeakable:
    def __repr__(self) -> str:
        raise RuntimeError("no words")


NUMBERS: Mapping[str, tuple[Any, float]] = {
    "a float": (1.5, 1.5),
    "an integer": (-3, -3.0),
    "zero": (0, 0.0),
    "a truth": (True, 1.0),
    "a numpy float": (np.float64(0.1), 0.1),
    "a small numpy float": (np.float32(0.5), 0.5),
    "a numpy integer": (np.int64(7), 7.0),
    "a numpy truth": (np.bool_(True), 1.0),
    "a fraction": (Fraction(1, 4), 0.25),
    "a decimal": (Decimal("0.125"), 0.125),
    "a large integer": (2**60, float(2**60)),
}
NO_NUMBERS: Mapping[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "None": None,
    "a text": "1.0",
    "an empty text": "",
    "bytes": b"1.0",
    "a numpy nan": np.float64("nan"),
    "a numpy inf": np.float32("inf"),
    "a numpy text": np.str_("1.0"),
    "a numpy array": np.array([1.0, 2.0]),
    "a complex number": 1j,
    "a huge integer": 10**400,
    "a decimal nan": Decimal("nan"),
    "a signalling nan": Decimal("snan"),
    "a list": [1.0],
    "a mapping": {"score": 1.0},
    "an object": object(),
    "a type": float,
    "one that raises": Raising(RuntimeError("no float for you")),
    "one that exits": Raising(SystemExit(1)),
    "one that raises a type error": Raising(TypeError("no")),
}


def check(result: Evaluation) -> None:
    """Checks the invariants and the JSON round trip."""
    assert (result.score is None) == (result.failure is not None)
    assert result.failure is None or result.failure
    numbers = [*result.scores, *result.metrics.values(), *([result.score] if result.score is not None else [])]
    assert all(type(number) is float and math.isfinite(number) for number in numbers)
    assert evaluation.from_data(json.loads(json.dumps(evaluation.to_data(result), allow_nan=False))) == result


@pytest.mark.parametrize("name", NUMBERS)
def test_finite_number_is_score(name: str) -> None:
    value, score = NUMBERS[name]
    result = evaluation.validate(value)
    assert result == Evaluation(score)
    check(result)


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_value_without_finite_number_is_failure(name: str) -> None:
    result = evaluation.validate(NO_NUMBERS[name])
    assert result.score is None
    assert result.failure is not None
    assert "not a finite number" in result.failure
    check(result)


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_evaluation_with_invalid_score_is_failure(name: str) -> None:
    result = evaluation.validate(Evaluation(NO_NUMBERS[name], (1.0,), {"length": 2.0}, "shorter, please"))
    assert result.failure is not None
    assert "not a finite number" in result.failure
    assert (result.scores, result.metrics, result.feedback) == ((1.0,), {"length": 2.0}, "shorter, please")
    check(result)


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_invalid_score_of_one_input_is_failure_naming_it(name: str) -> None:
    result = evaluation.validate(Evaluation(1.0, (1.0, NO_NUMBERS[name], 2.0)))
    assert result.failure is not None
    assert "input 1" in result.failure
    assert result.scores == ()
    check(result)


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_invalid_metric_is_dropped_and_reported(name: str) -> None:
    result = evaluation.validate(Evaluation(1.0, metrics={"length": 3, "odd": NO_NUMBERS[name]}, feedback="good"))
    assert (result.score, result.metrics) == (1.0, {"length": 3.0})
    assert result.feedback == "good\nDropped (not a finite number, or not stored): odd."
    check(result)


@pytest.mark.parametrize("name", NO_NUMBERS)
def test_failed_evaluation_is_validated(name: str) -> None:
    odd = NO_NUMBERS[name]
    result = evaluation.validate(Evaluation(odd, (odd, 1.0), {"odd": odd, "length": 1.0}, failure="it timed out"))
    assert (result.failure, result.scores, result.metrics) == ("it timed out", (), {"length": 1.0})
    check(result)


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_of_all_types_become_floats(name: str) -> None:
    value, score = NUMBERS[name]
    result = evaluation.validate(Evaluation(value, (value, value), {"metric": value}))
    assert result == Evaluation(score, (score, score), {"metric": score})
    check(result)


def test_failed_evaluation_has_no_score() -> None:
    result = evaluation.validate(Evaluation(9.0, (9.0,), failure="it cheated"))
    assert (result.score, result.failure) == (None, "it cheated")
    check(result)


def test_failure_without_reason_gets_default() -> None:
    result = evaluation.validate(Evaluation(None, failure=""))
    assert result.failure == "failed without a reason"
    check(result)


def test_exception_as_failure_becomes_text() -> None:
    result = evaluation.validate(Evaluation(None, failure=ValueError("no such file")))  # type: ignore[arg-type]
    assert result.failure == "no such file"
    check(result)


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (Unspeakable(), "RuntimeError: no words"),
        (Evaluation(1.0, None), "TypeError: 'NoneType' object is not iterable"),  # type: ignore[arg-type]
        (Evaluation(1.0, (Unspeakable(),)), "RuntimeError: no words"),  # type: ignore[arg-type]
        (Evaluation(1.0, metrics=[1.0]), "AttributeError: 'list' object has no attribute 'items'"),  # type: ignore[arg-type]
    ],
    ids=["no repr", "no scores", "a score without repr", "metrics without names"],
)
def test_unreadable_result_is_failure(odd: object, message: str) -> None:
    result = evaluation.validate(odd)
    assert result == Evaluation(None, failure=f"the evaluator's result raised {message}")
    check(result)


def test_all_dropped_metrics_and_artifacts_are_reported() -> None:
    artifacts = {"log": "text", 3: None, 4: BlobRef("0", 1, "a")}
    odd: dict[str, Any] = {"metrics": {7: 1.0, "odd": "x"}, "feedback": None, "artifacts": artifacts, "cost": 7}
    assert evaluation.validate(Evaluation("good", **odd)) == Evaluation(  # type: ignore[arg-type]
        None,
        metrics={"7": 1.0},
        feedback="Dropped (not a finite number, or not stored): odd, log, 3.",
        artifacts={"4": BlobRef("0", 1, "a")},
        failure="the score is 'good', not a finite number",
    )


def test_input_without_score_is_named_with_its_value() -> None:
    result = evaluation.validate(Evaluation(1.0, (1.0, "x" * 200, None)))  # type: ignore[arg-type]
    assert result.failure == f"the score of input 1 is '{'x' * 79}"


def test_invalid_cost_becomes_zero() -> None:
    assert evaluation.validate(Evaluation(1.0, cost=Cost(math.nan))).cost == Cost()
    assert evaluation.validate(Evaluation(1.0, cost=Cost(1.0, 2, 3, 0.5, 1))).cost == Cost(1.0, 2, 3, 0.5, 1)


def test_empty_fields_are_shared_constant() -> None:
    result = evaluation.validate(Evaluation(1.0, metrics={"odd": math.nan}, artifacts={}))
    assert all(item is EMPTY for item in (result.metrics, result.artifacts))
    again = evaluation.from_data({"score": 1.0})
    assert all(item is EMPTY for item in (again.metrics, again.artifacts))
    assert again.cost is evaluation.ZERO_COST


def test_long_result_is_truncated() -> None:
    result = evaluation.validate("x" * 10_000)
    assert result.failure == f"the score is '{'x' * 79}, not a finite number"


def test_valid_evaluation_is_unchanged() -> None:
    result = Evaluation(1.0, (0.5, 1.5), {"a": 1.0}, "good", {"log": BlobRef("0" * 64, 3, "abc")}, cost=Cost(1.0, 2, 3))
    assert evaluation.validate(result) == result


finite = st.floats(allow_nan=False, allow_infinity=False)
refs = st.builds(BlobRef, st.text(), st.integers(0), st.text())
costs = st.builds(Cost, finite, st.integers(0, 10**9), st.integers(0, 10**9), finite)
successes = st.builds(
    Evaluation,
    finite,
    st.lists(finite).map(tuple),
    st.dictionaries(st.text(), finite),
    st.text(),
    st.dictionaries(st.text(), refs),
    st.none(),
    costs,
)
failures = st.builds(
    lambda result, failure: replace(result, score=None, failure=failure), successes, st.text(min_size=1)
)


@given(successes | failures)
def test_plain_data_round_trip(result: Evaluation) -> None:
    assert evaluation.from_data(json.loads(json.dumps(evaluation.to_data(result)))) == result


anything = st.one_of(
    st.floats(), st.integers(), st.none(), st.text(), st.booleans(), st.sampled_from(list(NO_NUMBERS.values()))
)


@given(
    anything, st.lists(anything, max_size=3), st.dictionaries(st.text(), anything, max_size=3), st.none() | st.text()
)
def test_validate_keeps_invariants_for_any_input(
    score: Any, scores: list[Any], metrics: dict[str, Any], failure: str | None
) -> None:
    cleaned = evaluation.validate(Evaluation(score, tuple(scores), metrics, failure=failure))
    check(cleaned)
    assert evaluation.validate(cleaned) == cleaned


def test_empty_fields_are_not_stored() -> None:
    assert evaluation.to_data(Evaluation(1.0)) == {"score": 1.0}


def test_costs_add_up() -> None:
    assert Cost(1.0, 2, 3, 0.5, 5) + Cost(0.5, 1, 1, 0.25, 2) == Cost(1.5, 3, 4, 0.75, 7)


def test_evaluation_data_keys() -> None:
    result = Evaluation(1.0, (0.5,), {"a": 1.0}, "good", {"log": BlobRef("0", 3, "abc")}, cost=Cost(1.0, 2, 3, 0.5, 4))
    data = {
        "score": 1.0,
        "scores": (0.5,),
        "metrics": {"a": 1.0},
        "feedback": "good",
        "artifacts": {"log": ["0", 3, "abc"]},
        "cost": (1.0, 2, 3, 0.5, 4),
    }
    assert evaluation.to_data(result) == data
    assert evaluation.from_data(data) == result
    late = evaluation.failed("it timed out", feedback="shorter, please", cost=Cost(2.0))
    assert late == Evaluation(None, feedback="shorter, please", failure="it timed out", cost=Cost(2.0))
    assert evaluation.to_data(late) == {
        "score": None,
        "feedback": "shorter, please",
        "failure": "it timed out",
        "cost": (2.0, 0, 0, 0.0, 0),
    }


@pytest.mark.parametrize(("repeats", "expected"), [(3, 3), (2.0, 2), (-1, 0), (math.nan, 0), ("4", 0)])
def test_repeats_are_a_number_from_0_on(repeats: Any, expected: int) -> None:
    assert evaluation.validate(Evaluation(1.0, repeats=repeats)).repeats == expected


def test_repeats_and_metrics_survive_the_journal() -> None:
    result = evaluation.validate(Evaluation(1.0, (1.0,), MappingProxyType({"size": 2.0}), repeats=3))
    data = json.loads(json.dumps(evaluation.to_data(result)))
    assert data == {"score": 1.0, "scores": [1.0], "metrics": {"size": 2.0}, "repeats": 3}
    assert evaluation.from_data(data) == result
    assert evaluation.to_data(Evaluation(1.0, metrics=MappingProxyType({"size": 2.0})))["metrics"] == {"size": 2.0}


def test_feedback_without_note_is_unchanged() -> None:
    assert evaluation.validate(Evaluation(1.0, feedback=" a line\n")).feedback == " a line\n"

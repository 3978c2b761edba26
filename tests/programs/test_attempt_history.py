"""History of attempts for prompts."""

import json
from random import Random

from atoll import evaluation, function, gate
from atoll.candidate import JSON, Candidate
from atoll.programs.learners import AttemptHistory, AttemptMemory
from atoll.testing.fakes import make_evaluated_function

ACCEPT = gate.Decision("accept", "it ran", "ran")


def make_child(score: float | None, before: float | None = 1.0, *, change: str = "", failure: str = "it crashed"):
    meta: dict[str, JSON] = {"change": change} if change else {}
    meta |= {"from_score": before} if before is not None else {}
    result = evaluation.failed(failure) if score is None else evaluation.Evaluation(score)
    return make_evaluated_function(0.0).with_evaluation(Candidate("5.0", "text", meta=meta), result, score)


def make_result(*children, failure: str | None = None) -> function.IterationResult:
    return function.IterationResult(1, 0, (), {}, [(fn, ACCEPT) for fn in children], failure, evaluation.ZERO_COST)


def get_attempts(history: AttemptHistory):
    return history.advise(Random(0)).get("attempts", [])


def test_empty_history_gives_no_advice():
    assert AttemptHistory().advise(Random(0)) == {}


def test_latest_attempt_comes_first_with_its_outcome():
    history = AttemptHistory()
    for score in (2.0, 0.5, 1.0):
        history.learn(make_result(make_child(score, change=f"to {score}")))
    assert [item["outcome"] for item in get_attempts(history)] == ["no change", "declined", "improved"]
    assert get_attempts(history)[2] == {"outcome": "improved", "change": "to 2.0", "score": 2.0, "from_score": 1.0}


def test_failures_keep_their_reason_and_outlast_successes():
    history = AttemptHistory(2)
    history.learn(make_result(failure="the engine raised ValueError: no program"))
    for score in (1.0, 2.0, 3.0):
        history.learn(make_result(make_child(score)))
    assert [item["outcome"] for item in get_attempts(history)] == ["improved", "improved", "failed"]
    assert get_attempts(history)[2]["reason"] == "the engine raised ValueError: no program"


def test_unevaluated_child_is_listed_as_refused():
    history = AttemptHistory()
    refused = make_evaluated_function(0.0).with_evaluation(Candidate("5.0", "text"))
    decided = gate.Decision("reject", "it repeats 1.0", "novelty")
    history.learn(function.IterationResult(1, 0, (), {}, [(refused, decided)], None, evaluation.ZERO_COST))
    assert get_attempts(history) == [{"outcome": "refused", "reason": "it repeats 1.0"}]


def test_advice_is_short_for_long_failures():
    history = AttemptHistory()
    for number in range(20):
        history.learn(make_result(make_child(None, failure=f"{number}" + "x" * 100_000, change="y" * 100_000)))
        history.learn(make_result(failure="z" * 100_000))
    assert len(json.dumps(get_attempts(history))) < 6_000


def test_history_of_zero_attempts_gives_no_advice():
    history = AttemptHistory(0)
    history.learn(make_result(make_child(1.0)))
    assert history.advise(Random(0)) == {}


def test_same_results_give_same_advice():
    one, two = AttemptHistory(), AttemptHistory()
    for score in (1.0, None, 2.0, None, 0.1):
        one.learn(make_result(make_child(score)))
        get_attempts(one)
        two.learn(make_result(make_child(score)))
    assert get_attempts(one) == get_attempts(two)


def test_notes_count_an_error_in_any_line_and_list_no_change_without_a_gain():
    memory, parent = AttemptMemory(), make_child(1.0)
    for line in (3, 9):
        error = f'Traceback\n  File "program.py", line {line}, in f\n    y = values[{line}]\nIndexError: out of range'
        memory.add_child(parent, make_child(None), error)
    memory.add_child(parent, make_child(1.0, change="shorter"), "", best_gain=0.0)
    memory.add_child(parent, make_child(2.0, change="1 lines removed, 1 added\n+ z = 2"), "", best_gain=1.0)
    helped, failed = memory.list_notes()
    assert isinstance(helped, dict)
    assert helped["difference"] == 1.0
    assert failed == {"note": "failed", "reason": "IndexError: out of range", "count": 2}


def test_attempts_compare_no_score_with_a_failure_and_ignore_rounding():
    memory, parent = AttemptMemory(), make_child(1.0)
    memory.add_child(parent, make_child(93.0), "", is_parent_valid=False)
    memory.add_child(parent, make_child(1.0 + 1e-13), "", best_gain=1e-13)
    scored, equal = memory.list_latest()
    assert isinstance(scored, dict)
    assert isinstance(equal, dict)
    assert (scored["outcome"], scored["difference"]) == ("scored", None)
    assert (equal["outcome"], equal["difference"]) == ("equal", 0.0)
    assert memory.list_notes() == []


def test_error_named_none_replaces_no_scored_attempt():
    memory, parent = AttemptMemory(), make_child(1.0)
    memory.add_child(parent, make_child(2.0), "")
    memory.add_child(parent, make_child(None), "ValueError: x\nNone")
    assert len(memory.choose_attempts(str(parent.candidate.id if parent.candidate else ""))) == 2


def test_equal_errors_in_other_lines_are_one_attempt():
    memory, parent = AttemptMemory(), make_child(1.0)
    for line in (3, 9):
        error = f'Traceback\n  File "program.py", line {line}, in f\n    y = values[{line}]\nIndexError: out of range'
        memory.add_child(parent, make_child(None), error)
    [attempt] = memory.choose_attempts(str(parent.candidate.id if parent.candidate else ""))
    assert isinstance(attempt, dict)
    assert attempt["reason"] == "IndexError: out of range (line 9: y = values[9])"

"""What was tried last, as prompts are told of it."""

import json
from random import Random

from atoll import evaluation, function, gate
from atoll.candidate import JSON, Candidate
from atoll.programs.learners import AttemptHistory
from atoll.testing.fakes import make_evaluated_function

ACCEPT = gate.Decision("accept", "it ran", "ran")


def child(score: float | None, before: float | None = 1.0, *, change: str = "", failure: str = "it crashed"):
    meta: dict[str, JSON] = {"change": change} if change else {}
    meta |= {"from_score": before} if before is not None else {}
    found = evaluation.failed(failure) if score is None else evaluation.Evaluation(score)
    return make_evaluated_function(0.0).with_evaluation(Candidate("5.0", "text", meta=meta), found, score)


def outcome(*children, failure: str | None = None) -> function.IterationResult:
    return function.IterationResult(1, 0, (), {}, [(fn, ACCEPT) for fn in children], failure, evaluation.ZERO_COST)


def told(memory: AttemptHistory):
    return memory.advise(Random(0)).get("attempts", [])


def test_nothing_is_told_before_anything_was_tried():
    assert AttemptHistory().advise(Random(0)) == {}


def test_the_latest_is_told_first_with_what_came_of_it():
    memory = AttemptHistory()
    for score in (2.0, 0.5, 1.0):
        memory.learn(outcome(child(score, change=f"to {score}")))
    assert [each["outcome"] for each in told(memory)] == ["no change", "declined", "improved"]
    assert told(memory)[2] == {"outcome": "improved", "change": "to 2.0", "score": 2.0, "from_score": 1.0}


def test_failures_are_told_with_their_reasons_and_longer_than_successes():
    memory = AttemptHistory(2)
    memory.learn(outcome(failure="the engine raised ValueError: no program"))
    for score in (1.0, 2.0, 3.0):
        memory.learn(outcome(child(score)))
    assert [each["outcome"] for each in told(memory)] == ["improved", "improved", "failed"]
    assert told(memory)[2]["reason"] == "the engine raised ValueError: no program"


def test_a_child_that_was_not_judged_was_refused():
    memory = AttemptHistory()
    refused = make_evaluated_function(0.0).with_evaluation(Candidate("5.0", "text"))
    decided = gate.Decision("reject", "it repeats 1.0", "novelty")
    memory.learn(function.IterationResult(1, 0, (), {}, [(refused, decided)], None, evaluation.ZERO_COST))
    assert told(memory) == [{"outcome": "refused", "reason": "it repeats 1.0"}]


def test_what_is_told_is_short_and_plain_whatever_was_said():
    memory = AttemptHistory()
    for number in range(20):
        memory.learn(outcome(child(None, failure=f"{number}" + "x" * 100_000, change="y" * 100_000)))
        memory.learn(outcome(failure="z" * 100_000))
    assert len(json.dumps(told(memory))) < 6_000


def test_no_attempts_can_be_told_of():
    memory = AttemptHistory(0)
    memory.learn(outcome(child(1.0)))
    assert memory.advise(Random(0)) == {}


def test_the_same_outcomes_teach_the_same_again():
    one, two = AttemptHistory(), AttemptHistory()
    for score in (1.0, None, 2.0, None, 0.1):
        one.learn(outcome(child(score)))
        told(one)
        two.learn(outcome(child(score)))
    assert told(one) == told(two)

"""Nothing is judged twice: what is known, from when on, and who waits for whom."""

import threading
import time
from threading import Event, Thread

import pytest

from atoll.cluster.iteration import EvaluationCache
from atoll.evaluation import Evaluation
from atoll.testing import assertions

FOUND = Evaluation(1.0)


def test_what_nobody_judged_is_not_known() -> None:
    assert EvaluationCache().get("key", 10**9) is None


def test_what_was_stored_is_known_to_those_who_see_that_step() -> None:
    memo = EvaluationCache()
    memo.put("key", 5, FOUND)
    assert memo.get("key", 4) is None
    assert memo.get("key", 5) == FOUND
    assert memo.get("key", float("inf")) == FOUND


def test_the_earliest_step_counts() -> None:
    memo = EvaluationCache()
    for step in (7, 3, 9):
        memo.put("key", step, FOUND)
    assert memo.get("key", 2) is None
    assert memo.get("key", 3) == FOUND


def test_what_was_judged_and_not_stored_is_known_to_nobody_and_shared_all_the_same() -> None:
    memo = EvaluationCache()
    memo.get_or_evaluate("key", lambda: FOUND)
    assert memo.get("key", 10**9) is None
    assert memo.get_or_evaluate("key", lambda: pytest.fail("it was judged twice")) == FOUND


def test_of_many_who_ask_at_once_one_judges_and_all_get_the_same() -> None:
    memo, judged = EvaluationCache(), list[int]()

    def judge() -> Evaluation:
        judged.append(threading.get_ident())
        time.sleep(0.02)
        return Evaluation(float(len(judged)))

    assert assertions.run_concurrently(lambda _: memo.get_or_evaluate("key", judge)) == [Evaluation(1.0)] * 8
    assert len(judged) == 1


def test_different_contents_are_judged_side_by_side() -> None:
    memo, arrived = EvaluationCache(), threading.Barrier(4, timeout=60.0)

    def judge() -> Evaluation:
        arrived.wait()  # breaks unless all four are here at once
        return FOUND

    assert assertions.run_concurrently(lambda number: memo.get_or_evaluate(str(number), judge), 4) == [FOUND] * 4


def test_if_the_judge_raises_the_next_who_waits_judges() -> None:
    memo, begun, go_on = EvaluationCache(), Event(), Event()
    found: list[Evaluation] = []

    def fail() -> Evaluation:
        begun.set()
        go_on.wait(5.0)
        raise OSError("the disk is full")

    def first() -> None:
        with pytest.raises(OSError, match="disk"):
            memo.get_or_evaluate("key", fail)

    def second() -> None:
        begun.wait(5.0)
        found.append(memo.get_or_evaluate("key", lambda: FOUND))

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    begun.wait(5.0)
    go_on.set()
    for thread in threads:
        thread.join(5.0)
    assert found == [FOUND]

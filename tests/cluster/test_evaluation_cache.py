"""EvaluationCache: contents are evaluated once, and concurrent requests wait."""

import threading
import time
from threading import Event, Thread

import pytest

from atoll.cluster.iteration import EvaluationCache
from atoll.evaluation import Evaluation
from atoll.testing import fakes

EVALUATION = Evaluation(1.0)


def test_unevaluated_content_is_unknown() -> None:
    assert EvaluationCache().get("key", 10**9) is None


def test_stored_evaluation_is_visible_from_its_iteration() -> None:
    cache = EvaluationCache()
    cache.put("key", 5, EVALUATION)
    assert cache.get("key", 4) is None
    assert cache.get("key", 5) == EVALUATION
    assert cache.get("key", float("inf")) == EVALUATION


def test_earliest_iteration_counts() -> None:
    cache = EvaluationCache()
    for step in (7, 3, 9):
        cache.put("key", step, EVALUATION)
    assert cache.get("key", 2) is None
    assert cache.get("key", 3) == EVALUATION


def test_unstored_evaluation_is_shared_but_not_visible() -> None:
    cache = EvaluationCache()
    cache.get_or_evaluate("key", lambda: EVALUATION)
    assert cache.get("key", 10**9) is None
    assert cache.get_or_evaluate("key", lambda: pytest.fail("it was evaluated twice")) == EVALUATION


def test_concurrent_requests_evaluate_once() -> None:
    cache, evaluated = EvaluationCache(), list[int]()

    def evaluate() -> Evaluation:
        evaluated.append(threading.get_ident())
        time.sleep(0.02)
        return Evaluation(float(len(evaluated)))

    assert fakes.run_concurrently(lambda _: cache.get_or_evaluate("key", evaluate)) == [Evaluation(1.0)] * 8
    assert len(evaluated) == 1


def test_different_contents_are_evaluated_in_parallel() -> None:
    cache, arrived = EvaluationCache(), threading.Barrier(4, timeout=60.0)

    def evaluate() -> Evaluation:
        arrived.wait()  # fails unless all four wait at once
        return EVALUATION

    assert fakes.run_concurrently(lambda number: cache.get_or_evaluate(str(number), evaluate), 4) == [EVALUATION] * 4


def test_next_waiting_request_evaluates_after_exception() -> None:
    cache, begun, go_on = EvaluationCache(), Event(), Event()
    result: list[Evaluation] = []

    def fail() -> Evaluation:
        begun.set()
        go_on.wait(5.0)
        raise OSError("the disk is full")

    def first() -> None:
        with pytest.raises(OSError, match="disk"):
            cache.get_or_evaluate("key", fail)

    def second() -> None:
        begun.wait(5.0)
        result.append(cache.get_or_evaluate("key", lambda: EVALUATION))

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    begun.wait(5.0)
    go_on.set()
    for thread in threads:
        thread.join(5.0)
    assert result == [EVALUATION]

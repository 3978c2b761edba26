"""Tools of the suites: assertions without pytest, a clock, delays, a failing journal, functions and records."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from random import Random
from statistics import fmean
from threading import Barrier, Lock
from typing import Any

from atoll import errors, evaluation, function
from atoll.candidate import EMPTY, Candidate
from atoll.evaluation import Evaluation
from atoll.journal import CHARGED, CONTROLLED, ENDED, RESPONSE, STARTED, Journal, Record


@contextmanager
def raises[T: BaseException](kind: type[T]) -> Iterator[list[T]]:
    """Fails unless the block raises this exception; appends it to the returned list."""
    caught: list[T] = []
    try:
        yield caught
    except kind as error:
        caught.append(error)
        return
    raise AssertionError(f"{kind.__name__} was not raised")


def run_concurrently[T](call: Callable[[int], T], num_threads: int = 8) -> list[T]:
    """Calls `call(0)`, `call(1)`, ... in parallel threads that start together; returns the results."""
    barrier = Barrier(num_threads)

    def start(index: int) -> T:
        barrier.wait()
        return call(index)

    with ThreadPoolExecutor(num_threads) as pool:
        return list(pool.map(start, range(num_threads)))


class FakeClock:
    """Clock in seconds, like `time.monotonic`, that changes only by `advance`."""

    def __init__(self, now: float = 0.0) -> None:
        self._now = now
        self._lock = Lock()

    def __call__(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Moves the clock forward.

        Raises:
            SetupError: The seconds are negative.
        """
        if seconds < 0:
            raise errors.SetupError(f"A clock cannot go back {-seconds} seconds. Pass a positive number.")
        with self._lock:
            self._now += seconds


class RandomDelays:
    """Sleeps up to `max_seconds`, for a time that depends only on the seed and the position."""

    def __init__(self, seed: int, max_seconds: float = 0.002) -> None:
        self._seed, self._max_seconds = seed, max_seconds

    def __call__(self, *position: object) -> None:
        time.sleep(Random(f"{self._seed}/{position}").random() * self._max_seconds)


class FailingJournal:
    """Journal that fails after a number of commits, like a killed process.

    The inner journal keeps its records. Use it to test a resume.
    """

    def __init__(self, journal: Journal, max_commits: int | None = None, *, fails_after_write: bool = False) -> None:
        """Wraps a journal.

        Args:
            journal: Inner journal.
            max_commits: Number of commits that succeed; None means all.
            fails_after_write: If true, the last commit is stored but raises. If false, the next commit is not stored
                and raises.
        """
        self._journal, self._max_commits, self._fails_after_write = journal, max_commits, fails_after_write
        self._lock = Lock()
        self.num_commits = 0
        self.is_failed = max_commits == 0

    def write(self, *records: Record) -> None:
        with self._lock:
            if not self.is_failed:
                self._journal.write(*records)
                self.num_commits += 1
                self.is_failed = self.num_commits == self._max_commits
                if not (self.is_failed and self._fails_after_write):
                    return
            raise OSError(f"The journal failed at commit {self.num_commits}.")

    def read(self, island: int | None = None) -> Iterator[Record]:
        return self._journal.read(island)


def make_evaluated_function(
    scores: float | Sequence[float],
    content: str = "",
    *,
    id: str = "1.0",
    parents: Sequence[str] = (),
    metrics: Mapping[str, float] = EMPTY,
) -> function.Function:
    """Returns an evaluated function. Its score and fitness are the mean of `scores`."""
    values = (float(scores),) if isinstance(scores, int | float) else tuple(scores)
    result = Evaluation(fmean(values), values, metrics)
    prefix = id.partition(".")[0]
    iteration = int(prefix) if prefix.isdigit() else 0
    candidate = Candidate(id, content or f"content of {id}", tuple(parents), iteration=iteration)
    return _make_function(candidate.content).with_evaluation(candidate, result, result.score)


def make_failed_function(failure: str = "it did not run", content: str = "", *, id: str = "1.0") -> function.Function:
    """Returns a function whose evaluation failed."""
    candidate = Candidate(id, content or f"content of {id}")
    return _make_function(candidate.content).with_evaluation(candidate, evaluation.failed(failure))


def _make_function(content: str) -> function.Function:
    props = function.DefaultFunctionProps(function.Text(content), candidate_evaluator=_raise_on_evaluation)
    return function.DefaultFunction(props)


def _raise_on_evaluation(skeleton: object) -> Evaluation:
    raise AssertionError("the function already has an evaluation and must not be evaluated again")


_SESSION_KINDS = (STARTED, ENDED, CONTROLLED, CHARGED)  # records of a process, not of the run
_TIMED_FIELDS = ("cost", "usage")  # fields with seconds


def get_comparable_records(journal: Journal) -> Sequence[Record]:
    """Returns the records of iterations in order, without costs.

    They are equal for ordered runs with the same seed and window, for any number of workers, any timing and any
    number of resumes. LLM calls of evaluators are left out: for two equal candidates in parallel only one makes the
    calls, and timing decides which.
    """
    records = (record for record in journal.read() if record.kind not in _SESSION_KINDS)
    iterations = sorted((record for record in records if not _is_evaluator_call(record)), key=_get_sort_key)
    return [record._replace(data=_drop_timed_fields(record.data)) for record in iterations]


def _is_evaluator_call(record: Record) -> bool:
    return record.kind == RESPONSE and str(record.data.get("call")).count("/") == 1  # "label/number"


def _get_sort_key(record: Record) -> tuple[int, str, str]:
    label = record.data.get("label", record.data.get("call", ""))
    return record.step, record.kind, str(label)


def _drop_timed_fields(data: Any) -> Any:
    if isinstance(data, Mapping):
        return {name: _drop_timed_fields(value) for name, value in data.items() if name not in _TIMED_FIELDS}
    if isinstance(data, Sequence) and not isinstance(data, str):
        return [_drop_timed_fields(value) for value in data]
    return data

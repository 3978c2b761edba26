"""Evaluates candidates with a Python function or coroutine, on a data set or as a whole."""

import json
import math
import statistics
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, NamedTuple

from atoll import evaluation, function, journal, sandbox
from atoll.candidate import EMPTY, JSON, content_hash, normalize_json
from atoll.evaluation import ZERO_COST, Cost, Evaluation
from atoll.programs.evaluation.cascade import COMBINED_METRIC, ScoreFunction, describe_missing_score
from atoll.programs.gepa.instance_job import InstanceJob

_MAX_CLOSE_SECONDS = 5.0


class LoopThread:
    """Runs coroutines of all threads in one event loop, since clients of async libraries belong to their loop."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._loop: Any = None
        self._thread: Thread | None = None

    def run(self, awaitable: Any) -> Any:
        """Waits for an awaitable, and returns its result."""
        import asyncio  # slow to import; few users need it

        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = Thread(target=self._loop.run_forever, name="atoll-loop", daemon=True)
                self._thread.start()

        async def wait() -> Any:
            return await awaitable

        return asyncio.run_coroutine_threadsafe(wait(), self._loop).result()

    def close(self) -> None:
        """Ends the loop."""
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(_MAX_CLOSE_SECONDS)
            if not thread.is_alive():
                loop.close()


type OnResult = Callable[[int, JSON], None]  # index of an instance, and the result of its call

CALL_RECORD = "called"  # kind of the journal records of evaluator calls; recovery ignores them
TRAIN, VALIDATION, TEST = "train", "validation", "test"
_MAX_SHOWN_CHARS = 1200  # of an instance, and of its feedback, if many are shown
_MAX_TRACE_CHARS = 12_000  # of all instances together


class Minibatch(function.Text):
    """A text with the indices of the instances to evaluate it on: a trial, never a child."""

    __slots__ = ()

    @classmethod
    def create(cls, content: str, indices: Sequence[int], part: str = TRAIN) -> "Minibatch":
        return cls(json.dumps({"at": list(indices), "content": content, "part": part}))


class InProcessExecutor:
    """Runs jobs in this process, for candidates that are data, not code.

    Args:
        job: The job.
        workers: Evaluator calls in parallel.
    """

    level = "none"

    def __init__(self, job: InstanceJob, workers: int = 1) -> None:
        self._job, self._workers = job, workers
        self._pool = ThreadPoolExecutor(workers, "atoll-call") if workers > 1 else None
        self._loop = LoopThread()

    def run(self, request: JSON) -> sandbox.SandboxResult:
        return self.run_each(request, lambda index, result: None)

    def run_each(self, request: Any, on_result: OnResult) -> sandbox.SandboxResult:
        """Runs a job and passes each result on as soon as it is there."""

        def map_calls(call: Callable[[int], JSON], indices: Sequence[int]) -> list[JSON]:
            def call_and_report(index: int) -> JSON:
                result = call(index)
                on_result(index, result)
                return result

            if self._pool is None or len(indices) < 2:
                return [call_and_report(index) for index in indices]
            return list(self._pool.map(call_and_report, indices))

        started_at = time.perf_counter()
        results: Any = self._job.run(request, self._loop.run, map_calls)
        return sandbox.SandboxResult(results, None, "", time.perf_counter() - started_at)

    def close(self) -> None:
        """Ends the threads; running calls finish."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._loop.close()


class CallMemory:
    """Results of all evaluator calls of a run by candidate, part and instance. Thread-safe.

    An instance of a candidate is evaluated once, also if minibatches and the validation set overlap.

    Attributes:
        is_stored: Whether calls are written into the journal, so that a resumed run does not repeat them.
    """

    def __init__(self, *, is_stored: bool = False) -> None:
        self.is_stored = is_stored
        self._results: dict[tuple[str, str, int], JSON] = {}
        self._resumed = Counter[int]()
        self._lock = Lock()

    @property
    def calls(self) -> int:
        """Number of evaluator calls so far, without those of the test set."""
        return len(self._results)

    def load(self, records: Iterable[journal.Record], *, is_test: bool = False) -> None:
        """Adds the calls of a resumed run: those of the test set, or the others."""
        for record in records:
            data = record.data
            if (data["part"] == TEST) == is_test:
                self._results[data["content"], data["part"], data["at"]] = data["result"]
                self._resumed[record.step] += 1

    def count_resumed(self, iteration: int) -> int:
        """Returns the calls that an iteration made before the run was resumed."""
        return self._resumed[iteration]

    def get(self, content: str, part: str, index: int) -> Any:
        """Returns the result of a call; None if it was not made yet."""
        return self._results.get((content, part, index))

    def add(self, cache: journal.CallCache | None, content: str, part: str, index: int, result: JSON) -> None:
        """Adds a call, and writes it into the journal of an iteration."""
        with self._lock:
            self._results[content, part, index] = result
        if self.is_stored and cache is not None:
            data = normalize_json({"content": content, "part": part, "at": index, "result": result})
            cache.journal.write(journal.Record(CALL_RECORD, cache.position[0], cache.island, data))


@dataclass(frozen=True, slots=True)
class DatasetEvaluator:
    """Runs the evaluator on all instances; the score is the mean.

    Attributes:
        executor: Runs an `InstanceJob`.
        parts: The instances by split, shown beside their feedback.
        memory: Results of earlier calls.
        score_function: Computes the score of a dict of metrics.
        default_part: The split for candidates that are not minibatches.
    """

    executor: sandbox.Sandbox
    parts: Mapping[str, Sequence[Any]] = EMPTY
    memory: CallMemory = field(default_factory=CallMemory)
    score_function: ScoreFunction = ScoreFunction()  # noqa: RUF009  # frozen
    default_part: str = VALIDATION

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        content, part, indices = str(skeleton), self.default_part, list[int]()
        if is_minibatch := isinstance(skeleton, Minibatch):
            batch = json.loads(skeleton)
            content, part, indices = batch["content"], batch["part"], batch["at"]
        else:
            indices = list(range(len(self.parts[part]))) if self.parts else [0]
        stored_part = TRAIN if self.parts and self.parts[part] is self.parts.get(TRAIN) else part
        key = content_hash(content)
        missing = [index for index in indices if self.memory.get(key, stored_part, index) is None]
        response = self._call_evaluator(key, content, part, stored_part, missing)
        if response.failure is not None:
            output = response.output[-_MAX_SHOWN_CHARS:]
            return evaluation.failed(response.failure, feedback=output, cost=Cost(seconds=response.seconds))
        entries = [self.memory.get(key, stored_part, index) for index in indices]
        results = [_parse_entry(entry, self.score_function) for entry in entries]
        new = set(missing)
        costs = (result.cost for index, result in zip(indices, results, strict=True) if index in new)
        cost = sum(costs, Cost(seconds=response.seconds))
        examples = self._format_examples(is_minibatch and part == TRAIN, part, indices, results)
        output = response.output[-_MAX_SHOWN_CHARS:].strip()
        feedback = "\n\n".join(text for text in (examples, output) if text)
        for index, result in zip(indices, results, strict=True):
            if result.failure is not None:
                failure = f"instance {index}: {result.failure}" if self.parts else result.failure
                return evaluation.failed(failure, feedback=feedback, cost=cost)
        return _average_results(results, feedback, cost)

    def _call_evaluator(
        self, key: str, content: str, part: str, stored_part: str, missing: Sequence[int]
    ) -> sandbox.SandboxResult:
        """Calls the evaluator on instances without a result, and adds the results to the memory."""
        if not missing:
            return sandbox.SandboxResult([], None, "", 0.0)
        request: dict[str, Any] = {"content": content, "part": part, "at": list(missing)}
        cache = journal.CallCache.current.get()  # of this thread; calls may run in others

        def add(index: int, result: JSON) -> None:
            self.memory.add(cache, key, stored_part, index, result)

        if isinstance(self.executor, InProcessExecutor):
            response = self.executor.run_each(request, add)
        else:
            response = sandbox.run_job(self.executor, request)
        if response.failure is None:
            entries: Any = response.value
            for index, entry in zip(missing, entries, strict=True):
                if self.memory.get(key, stored_part, index) is None:
                    add(index, entry)
        return response

    def _format_examples(
        self, shows_instances: bool, part: str, indices: Sequence[int], results: Sequence["_CallResult"]
    ) -> str:
        """Returns the feedback; for training instances, beside each instance."""
        if not self.parts:
            return results[0].feedback
        if not shows_instances:
            return ""  # validation instances are not shown to the proposer
        max_chars = max(_MAX_SHOWN_CHARS, _MAX_TRACE_CHARS // max(1, 2 * len(results)))
        examples = (
            _format_example(self.parts[part][index], result, max_chars)
            for index, result in zip(indices, results, strict=True)
        )
        return "\n\n".join(f"Example {number}\n{text}" for number, text in enumerate(examples, 1))


def _format_example(instance: Any, result: "_CallResult", max_chars: int) -> str:
    score = f"Score: {result.score:.6g}" if result.failure is None else f"Failed: {result.failure}"
    text = result.feedback[:max_chars] if result.failure is None else result.feedback[-max_chars:]  # of a traceback
    feedback = f"\nFeedback: {text}" if text else ""
    name = "" if isinstance(instance, Mapping) else "Input: "  # the keys of a dict are its names
    return f"{name}{format_instance(instance)[:max_chars]}\n{score}{feedback}"


def format_instance(instance: Any) -> str:
    """Returns an instance as text; a dict with one key per line."""
    if isinstance(instance, Mapping):
        return "\n".join(f"{name}: {value}" for name, value in instance.items())
    return instance if isinstance(instance, str) else repr(instance)


class _CallResult(NamedTuple):
    """Result of one call; lighter than an `Evaluation`, since a data set has many."""

    score: float
    scores: Sequence[float]
    metrics: Mapping[str, float]
    feedback: str
    failure: str | None = None
    cost: Cost = ZERO_COST


def _parse_entry(entry: Mapping[str, Any], score_function: ScoreFunction) -> _CallResult:
    if "failure" in entry:
        return _CallResult(math.nan, (), EMPTY, str(entry.get("feedback", "")), entry["failure"])
    metrics: Mapping[str, float] = entry["metrics"]
    feedback = str(entry["feedback"])
    artifact_lines = [f"{name}: {body}" for name, body in entry["artifacts"].items()]
    feedback = "\n".join([*artifact_lines, *([feedback] if feedback else [])]) if artifact_lines else feedback
    score = score_function.score(metrics)
    if score_function.metric is None and "score" in metrics:
        score = -metrics["score"] if score_function.minimize else metrics["score"]
    cost = Cost(*entry["cost"]) if "cost" in entry else ZERO_COST
    if score is None or not math.isfinite(score):
        failure = describe_missing_score(entry["artifacts"]) if score is None else f"the score is {score}"
        return _CallResult(math.nan, (), EMPTY, feedback, failure, cost)
    return _CallResult(score, entry["scores"], metrics, feedback, None, cost)


def _average_results(results: Sequence[_CallResult], feedback: str, cost: Cost) -> Evaluation:
    first, metrics = results[0], dict[str, float]()
    for name in first.metrics:
        if name not in ("score", COMBINED_METRIC) and all(name in result.metrics for result in results):
            metrics[name] = statistics.fmean(result.metrics[name] for result in results)
    scores = tuple(result.score for result in results)
    if len(results) == 1:
        return Evaluation(first.score, tuple(first.scores) or scores, metrics, feedback, cost=cost)
    return Evaluation(statistics.fmean(scores), scores, metrics, feedback, cost=cost)

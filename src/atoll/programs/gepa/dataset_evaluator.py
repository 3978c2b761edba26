"""Evaluates candidates with a Python function, on a data set or as a whole."""

import inspect
import json
import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple

from atoll import errors, evaluation, function, sandbox
from atoll.candidate import EMPTY, JSON
from atoll.evaluation import Cost, Evaluation
from atoll.programs.evaluation.cascade import COMBINED_METRIC, ScoreFunction
from atoll.programs.evaluation.evaluator_job import to_plain_result

type DecodeCandidate = Callable[[str], Any]  # from the text to the evaluator's argument

CALLS_METRIC = "evaluator_calls"  # metric: number of evaluator calls
_MAX_SHOWN_CHARS = 1200  # of an instance, and of its feedback


class Minibatch(function.Text):
    """A text with the indices of the training instances to evaluate it on: a trial, never a child."""

    __slots__ = ()

    @classmethod
    def create(cls, content: str, indices: Sequence[int]) -> "Minibatch":
        return cls(json.dumps({"at": list(indices), "content": content}))


class InstanceJob:
    """Calls an evaluator with a candidate, and with one instance at a time if there is data.

    Runs in a sandbox, or in this process with `InProcessExecutor`.

    Args:
        evaluator: Takes (candidate) or (candidate, instance); may be a coroutine function.
        decode: Converts the text to the candidate.
        parts: Instances by split; empty: no data.
    """

    def __init__(
        self, evaluator: Callable[..., Any], decode: DecodeCandidate, parts: Mapping[str, Sequence[Any]] = EMPTY
    ) -> None:
        self._evaluator, self._decode, self._parts = evaluator, decode, parts

    def __call__(self, request: Mapping[str, Any]) -> list[JSON]:
        """Returns the result of each call as plain data, or `{"failure": "ValueError: ..."}`."""
        candidate = errors.capture(lambda: self._decode(request["content"]), reraise=())
        if isinstance(candidate, errors.CaughtException):
            return [{"failure": str(candidate)}]
        if not self._parts:
            return [self._call_evaluator(candidate)]
        instances = self._parts[request["part"]]
        indices = range(len(instances)) if request["at"] is None else request["at"]
        return [self._call_evaluator(candidate, instances[index]) for index in indices]

    def _call_evaluator(self, *arguments: Any) -> JSON:
        result = errors.capture(lambda: _to_plain_result(_await_result(self._evaluator(*arguments))), reraise=())
        return {"failure": str(result)} if isinstance(result, errors.CaughtException) else result


def _to_plain_result(result: Any) -> dict[str, Any]:
    """Like `evaluator_job.to_plain_result`, but fast for the common results: a score, or a score and feedback."""
    score, feedback = result if type(result) is tuple and len(result) == 2 else (result, "")
    if type(score) is float and type(feedback) is str:
        return {"metrics": {COMBINED_METRIC: score}, "scores": (), "feedback": feedback, "artifacts": {}}
    return to_plain_result(result)


def _await_result(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return result
    import asyncio  # slow to import; few evaluators are coroutines

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


@dataclass(frozen=True, slots=True)
class InProcessExecutor:
    """Runs jobs in this process, for candidates that are data, not code."""

    job: sandbox.Job
    level: str = "none"

    def run(self, request: JSON) -> sandbox.SandboxResult:
        started_at = time.perf_counter()
        return sandbox.SandboxResult(self.job(request), None, "", time.perf_counter() - started_at)

    def close(self) -> None:
        """Does nothing."""


@dataclass(slots=True)
class CallCounter:
    """Counts evaluator calls; safe for several threads."""

    calls: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, calls: int) -> None:
        with self._lock:
            self.calls += calls


@dataclass(frozen=True, slots=True)
class DatasetEvaluator:
    """Runs the evaluator on all instances; the score is the mean.

    Attributes:
        executor: Runs an `InstanceJob`.
        parts: The instances by split, shown beside their feedback.
        counter: Counts the calls.
        score_function: Computes the score of a dict of metrics.
    """

    executor: sandbox.Sandbox
    parts: Mapping[str, Sequence[Any]] = EMPTY
    counter: CallCounter = field(default_factory=CallCounter)
    score_function: ScoreFunction = ScoreFunction()  # noqa: RUF009  # frozen

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        request: dict[str, JSON] = {"content": str(skeleton), "part": "validation", "at": None}
        if isinstance(skeleton, Minibatch):
            request |= {**json.loads(skeleton), "part": "train"}
        response = sandbox.run_job(self.executor, request)
        cost = Cost(seconds=response.seconds)
        if response.failure is not None:
            return evaluation.failed(response.failure, feedback=response.output[-_MAX_SHOWN_CHARS:], cost=cost)
        entries: Any = response.value
        self.counter.add(len(entries))
        results = [_parse_entry(entry, self.score_function) for entry in entries]
        examples = self._format_examples(request, results)
        output = response.output[-_MAX_SHOWN_CHARS:].strip()
        feedback = "\n\n".join(part for part in (examples, output) if part)
        for index, result in enumerate(results):
            if result.failure is not None:
                failure = f"instance {index}: {result.failure}" if self.parts else result.failure
                return evaluation.failed(failure, feedback=feedback, cost=cost)
        return _average_results(results, feedback, cost)

    def _format_examples(self, request: Mapping[str, Any], results: Sequence["_CallResult"]) -> str:
        """Returns the feedback; for training instances, beside each instance."""
        if not self.parts:
            return results[0].feedback
        instances, indices = self.parts[request["part"]], request["at"] or range(len(results))
        if request["at"] is None:
            return ""  # validation instances are not shown to the proposer
        return "\n\n".join(
            _format_example(instances[index], result) for index, result in zip(indices, results, strict=False)
        )


def _format_example(instance: Any, result: "_CallResult") -> str:
    input_text = instance if isinstance(instance, str) else repr(instance)
    score = f"Score: {result.score:.6g}" if result.failure is None else f"Failed: {result.failure}"
    feedback = f"\nFeedback: {result.feedback[:_MAX_SHOWN_CHARS]}" if result.feedback else ""
    return f"Input: {input_text[:_MAX_SHOWN_CHARS]}\n{score}{feedback}"


class _CallResult(NamedTuple):
    """Result of one call; lighter than an `Evaluation`, since a data set has many."""

    score: float
    scores: Sequence[float]
    metrics: Mapping[str, float]
    feedback: str
    failure: str | None = None


def _parse_entry(entry: Mapping[str, Any], score_function: ScoreFunction) -> _CallResult:
    if "failure" in entry:
        return _CallResult(math.nan, (), EMPTY, "", entry["failure"])
    metrics: Mapping[str, float] = entry["metrics"]
    feedback = str(entry["feedback"])
    artifact_lines = [f"{name}: {body}" for name, body in entry["artifacts"].items()]
    feedback = "\n".join([*([feedback] if feedback else []), *artifact_lines]) if artifact_lines else feedback
    score = score_function.score(metrics)
    if score_function.metric is None and "score" in metrics:
        score = -metrics["score"] if score_function.minimize else metrics["score"]
    if score is None or not math.isfinite(score):
        failure = "the evaluator returned no number" if score is None else f"the score is {score}"
        return _CallResult(math.nan, (), EMPTY, feedback, failure)
    return _CallResult(score, entry["scores"], metrics, feedback)


def _average_results(results: Sequence[_CallResult], feedback: str, cost: Cost) -> Evaluation:
    first, metrics = results[0], {CALLS_METRIC: float(len(results))}
    for name in first.metrics:
        if name not in ("score", COMBINED_METRIC) and all(name in result.metrics for result in results):
            metrics[name] = statistics.fmean(result.metrics[name] for result in results)
    scores = tuple(result.score for result in results)
    if len(results) == 1:
        return Evaluation(first.score, tuple(first.scores) or scores, metrics, feedback, cost=cost)
    return Evaluation(statistics.fmean(scores), scores, metrics, feedback, cost=cost)

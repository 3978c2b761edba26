"""Judges by a live evaluator: on one instance of a data set at a time, or on the candidate as a whole."""

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

type DecodeCandidate = Callable[[str], Any]  # makes of a candidate's text what its evaluator is given

CALLS_METRIC = "evaluator_calls"  # the metric that says how often the evaluator was called
_MAX_SHOWN_CHARS = 1200  # characters of an instance, and of what was said about it


class Minibatch(function.Text):
    """A text together with the few instances of the train part that it is tried on: a draft, never a child."""

    __slots__ = ()

    @classmethod
    def create(cls, content: str, indices: Sequence[int]) -> "Minibatch":
        return cls(json.dumps({"at": list(indices), "content": content}))


class InstanceJob:
    """Calls an evaluator with a candidate, and with one instance at a time where there is data.

    The maker of a sandbox's job, or used in this process by `Here`.

    Args:
        evaluator: Takes (candidate) or (candidate, instance); may be a coroutine.
        decode: Makes the candidate of its text.
        parts: Instances by the name of their part; empty: there is no data.
    """

    def __init__(
        self, evaluator: Callable[..., Any], decode: DecodeCandidate, parts: Mapping[str, Sequence[Any]] = EMPTY
    ) -> None:
        self._evaluator, self._decode, self._parts = evaluator, decode, parts

    def __call__(self, request: Mapping[str, Any]) -> list[JSON]:
        """Returns for each call what was found as plain data, or `{"failure": "ValueError: ..."}`."""
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
    """Returns what `plain` would, quickly for what most evaluators return: a score, or a score and feedback."""
    score, feedback = result if type(result) is tuple and len(result) == 2 else (result, "")
    if type(score) is float and type(feedback) is str:
        return {"metrics": {COMBINED_METRIC: score}, "scores": (), "feedback": feedback, "artifacts": {}}
    return to_plain_result(result)


def _await_result(result: Any) -> Any:
    if not inspect.isawaitable(result):
        return result
    import asyncio  # half of a worker's start, for the few evaluators that are coroutines

    async def wait() -> Any:
        return await result

    return asyncio.run(wait())


@dataclass(frozen=True, slots=True)
class InProcessExecutor:
    """A place in this process: for candidates that are data, whose evaluator is the user's own code."""

    job: sandbox.Job
    level: str = "none"

    def run(self, request: JSON) -> sandbox.SandboxResult:
        started_at = time.perf_counter()
        return sandbox.SandboxResult(self.job(request), None, "", time.perf_counter() - started_at)

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


@dataclass(slots=True)
class CallCounter:
    """Counts the calls of an evaluator, by several threads at once."""

    calls: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, calls: int) -> None:
        with self._lock:
            self.calls += calls


@dataclass(frozen=True, slots=True)
class DatasetEvaluator:
    """Has a place call the evaluator and makes one evaluation of all answers: the score is their mean.

    Attributes:
        place: Its job is an `Asking`.
        parts: The instances, as the job has them, to be shown beside what was said about them.
        meter: Counts the calls.
        measure: Makes the score of a dict of metrics.
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
        """Returns what was said; of the train part beside each instance, for whoever learns from it."""
        if not self.parts:
            return results[0].feedback
        instances, indices = self.parts[request["part"]], request["at"] or range(len(results))
        if request["at"] is None:
            return ""  # what chooses is not shown to what proposes
        return "\n\n".join(
            _format_example(instances[index], result) for index, result in zip(indices, results, strict=False)
        )


def _format_example(instance: Any, result: "_CallResult") -> str:
    input_text = instance if isinstance(instance, str) else repr(instance)
    score = f"Score: {result.score:.6g}" if result.failure is None else f"It failed: {result.failure}"
    feedback = f"\nFeedback: {result.feedback[:_MAX_SHOWN_CHARS]}" if result.feedback else ""
    return f"Input: {input_text[:_MAX_SHOWN_CHARS]}\n{score}{feedback}"


class _CallResult(NamedTuple):
    """What one call found; plainer than an evaluation, since a data set has many."""

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
    if artifacts := entry["artifacts"]:
        feedback = "\n".join(
            [*([feedback] if feedback else []), *(f"{name}: {body}" for name, body in artifacts.items())]
        )
    has_score_metric = score_function.metric is None and "score" in metrics
    score = (
        (-metrics["score"] if score_function.minimize else metrics["score"])
        if has_score_metric
        else score_function.score(metrics)
    )
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

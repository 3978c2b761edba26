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
from atoll.candidate import JSON, NOTHING
from atoll.evaluation import Cost, Evaluation
from atoll.programs.evaluator import plain
from atoll.programs.stages import COMBINED, Measure

type Decode = Callable[[str], Any]  # makes of a candidate's text what its evaluator is given

CALLS = "evaluator_calls"  # the metric that says how often the evaluator was called
_LONGEST_SHOWN = 1200  # characters of an instance, and of what was said about it


class Sample(function.Text):
    """A text together with the few instances of the train part that it is tried on: a draft, never a child."""

    __slots__ = ()

    @classmethod
    def of(cls, content: str, at: Sequence[int]) -> "Sample":
        return cls(json.dumps({"at": list(at), "content": content}))


class Asking:
    """Calls an evaluator with a candidate, and with one instance at a time where there is data.

    The maker of a sandbox's job, or used in this process by `Here`.

    Args:
        evaluator: Takes (candidate) or (candidate, instance); may be a coroutine.
        decode: Makes the candidate of its text.
        parts: Instances by the name of their part; empty: there is no data.
    """

    def __init__(
        self, evaluator: Callable[..., Any], decode: Decode, parts: Mapping[str, Sequence[Any]] = NOTHING
    ) -> None:
        self._evaluator, self._decode, self._parts = evaluator, decode, parts

    def __call__(self, request: Mapping[str, Any]) -> list[JSON]:
        """Returns for each call what was found as plain data, or `{"failure": "ValueError: ..."}`."""
        made = errors.attempt(lambda: self._decode(request["content"]), passing=())
        if isinstance(made, errors.Caught):
            return [{"failure": str(made)}]
        if not self._parts:
            return [self._asked(made)]
        instances = self._parts[request["part"]]
        at = range(len(instances)) if request["at"] is None else request["at"]
        return [self._asked(made, instances[place]) for place in at]

    def _asked(self, *arguments: Any) -> JSON:
        found = errors.attempt(lambda: _plain(_awaited(self._evaluator(*arguments))), passing=())
        return {"failure": str(found)} if isinstance(found, errors.Caught) else found


def _plain(found: Any) -> dict[str, Any]:
    """Returns what `plain` would, quickly for what most evaluators return: a score, or a score and feedback."""
    score, feedback = found if type(found) is tuple and len(found) == 2 else (found, "")
    if type(score) is float and type(feedback) is str:
        return {"metrics": {COMBINED: score}, "scores": (), "feedback": feedback, "artifacts": {}}
    return plain(found)


def _awaited(found: Any) -> Any:
    if not inspect.isawaitable(found):
        return found
    import asyncio  # half of a worker's start, for the few evaluators that are coroutines

    async def wait() -> Any:
        return await found

    return asyncio.run(wait())


@dataclass(frozen=True, slots=True)
class Here:
    """A place in this process: for candidates that are data, whose evaluator is the user's own code."""

    job: sandbox.Job
    level: str = "none"

    def run(self, request: JSON) -> sandbox.Answer:
        since = time.perf_counter()
        return sandbox.Answer(self.job(request), None, "", time.perf_counter() - since)

    def close(self) -> None:
        """Does nothing: there is nothing to end."""


@dataclass(slots=True)
class Meter:
    """Counts the calls of an evaluator, by several threads at once."""

    calls: int = 0
    _lock: Lock = field(default_factory=Lock)

    def add(self, calls: int) -> None:
        with self._lock:
            self.calls += calls


@dataclass(frozen=True, slots=True)
class InstanceJudge:
    """Has a place call the evaluator and makes one evaluation of all answers: the score is their mean.

    Attributes:
        place: Its job is an `Asking`.
        parts: The instances, as the job has them, to be shown beside what was said about them.
        meter: Counts the calls.
        measure: Makes the score of a dict of metrics.
    """

    place: sandbox.Sandbox
    parts: Mapping[str, Sequence[Any]] = NOTHING
    meter: Meter = field(default_factory=Meter)
    measure: Measure = Measure()  # noqa: RUF009  # frozen

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        request: dict[str, JSON] = {"content": str(skeleton), "part": "validation", "at": None}
        if isinstance(skeleton, Sample):
            request |= {**json.loads(skeleton), "part": "train"}
        answer = sandbox.ask(self.place, request)
        cost = Cost(seconds=answer.seconds)
        if answer.failure is not None:
            return evaluation.failed(answer.failure, feedback=answer.output[-_LONGEST_SHOWN:], cost=cost)
        entries: Any = answer.value
        self.meter.add(len(entries))
        found = [_read(entry, self.measure) for entry in entries]
        shown = self._shown(request, found)
        output = answer.output[-_LONGEST_SHOWN:].strip()
        feedback = "\n\n".join(part for part in (shown, output) if part)
        for where, each in enumerate(found):
            if each.failure is not None:
                said = f"instance {where}: {each.failure}" if self.parts else each.failure
                return evaluation.failed(said, feedback=feedback, cost=cost)
        return _mean(found, feedback, cost)

    def _shown(self, request: Mapping[str, Any], found: Sequence["_Found"]) -> str:
        """Returns what was said; of the train part beside each instance, for whoever learns from it."""
        if not self.parts:
            return found[0].feedback
        instances, at = self.parts[request["part"]], request["at"] or range(len(found))
        if request["at"] is None:
            return ""  # what chooses is not shown to what proposes
        return "\n\n".join(_example(instances[place], each) for place, each in zip(at, found, strict=False))


def _example(instance: Any, found: "_Found") -> str:
    shown = instance if isinstance(instance, str) else repr(instance)
    score = f"Score: {found.score:.6g}" if found.failure is None else f"It failed: {found.failure}"
    said = f"\nFeedback: {found.feedback[:_LONGEST_SHOWN]}" if found.feedback else ""
    return f"Input: {shown[:_LONGEST_SHOWN]}\n{score}{said}"


class _Found(NamedTuple):
    """What one call found; plainer than an evaluation, since a data set has many."""

    score: float
    scores: Sequence[float]
    metrics: Mapping[str, float]
    feedback: str
    failure: str | None = None


def _read(entry: Mapping[str, Any], measure: Measure) -> _Found:
    if "failure" in entry:
        return _Found(math.nan, (), NOTHING, "", entry["failure"])
    metrics: Mapping[str, float] = entry["metrics"]
    feedback = str(entry["feedback"])
    if artifacts := entry["artifacts"]:
        feedback = "\n".join(
            [*([feedback] if feedback else []), *(f"{name}: {body}" for name, body in artifacts.items())]
        )
    is_named = measure.metric is None and "score" in metrics
    score = (-metrics["score"] if measure.minimize else metrics["score"]) if is_named else measure.score(metrics)
    if score is None or not math.isfinite(score):
        said = "the evaluator returned no number" if score is None else f"the score is {score}"
        return _Found(math.nan, (), NOTHING, feedback, said)
    return _Found(score, entry["scores"], metrics, feedback)


def _mean(found: Sequence[_Found], feedback: str, cost: Cost) -> Evaluation:
    first, metrics = found[0], {CALLS: float(len(found))}
    for name in first.metrics:
        if name not in ("score", COMBINED) and all(name in each.metrics for each in found):
            metrics[name] = statistics.fmean(each.metrics[name] for each in found)
    scores = tuple(each.score for each in found)
    if len(found) == 1:
        return Evaluation(first.score, tuple(first.scores) or scores, metrics, feedback, cost=cost)
    return Evaluation(statistics.fmean(scores), scores, metrics, feedback, cost=cost)

"""Judges a program by its folder's evaluator: in stages, several times where it is noisy, with all that it said."""

import base64
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from atoll import evaluation, function, sandbox, system
from atoll.candidate import JSON
from atoll.evaluation import FREE, Cost, Evaluation
from atoll.programs.stages import WHOLE, Measure, passes

_LONGEST_FEEDBACK, _LONGEST_SHOWN = 4000, 2000  # characters, in all and of one artifact
OUTPUT = "output"  # the artifact that holds what was printed


@dataclass(slots=True)
class Findings:
    """What the stages of one evaluation have found so far; later ones win."""

    metrics: dict[str, float] = field(default_factory=dict)
    scores: Sequence[float] = ()
    feedback: list[str] = field(default_factory=list)
    bodies: dict[str, JSON] = field(default_factory=dict)
    printed: list[str] = field(default_factory=list)
    failure: str | None = None
    cost: Cost = FREE

    def take(self, value: Mapping[str, Any], answer: sandbox.Answer) -> None:
        self.metrics |= value["metrics"]
        self.scores = value["scores"] or self.scores
        self.feedback += [value["feedback"]] if value["feedback"] else []
        self.bodies |= value["artifacts"]
        self.note(answer)

    def fail(self, stage: str, answer: sandbox.Answer, *, is_first: bool) -> None:
        """Takes in a stage that failed: the first leaves nothing, a later one keeps what was found before it."""
        failure = str(answer.failure)
        self.bodies |= {"failure_stage": stage, "error_type": _kind(failure)}
        self.feedback.append(f"{stage} failed: {failure}")
        if is_first:
            self.failure = failure
        else:
            self.metrics[f"{stage.removeprefix('evaluate_')}_passed"] = 0.0
        self.note(answer)

    def told(self) -> str:
        """Returns what the next proposal should hear: feedback, short artifacts, the end of what was printed."""
        shown = [f"{name}: {body}" for name, body in self.bodies.items() if isinstance(body, str)]
        parts = [*self.feedback, *(text[:_LONGEST_SHOWN] for text in shown), *self.printed]
        return "\n".join(parts)[-_LONGEST_FEEDBACK:]

    def note(self, answer: sandbox.Answer) -> None:
        self.printed += [answer.output.strip()] if answer.output.strip() else []
        self.cost += Cost(seconds=answer.seconds)


@dataclass(frozen=True, slots=True)
class FolderJudge:
    """Sends a program to the evaluator and makes one evaluation of all that comes back.

    Each stage is a request of its own, so that one that is killed leaves the findings of those before it, and whether
    a program goes on to the next stage is decided here, where no candidate ever was.

    Attributes:
        place: Where the evaluator runs.
        bodies: Where artifacts are kept.
        stages: Functions of the evaluator, asked in turn.
        thresholds: What a stage must reach for the next one to be asked; where there is none, the cascade ends.
        measure: Makes the score.
        repeats: How often a program is judged, where the evaluator is noisy: the score is the mean.
        hint: What to say of variables of the environment that the evaluator misses.
    """

    place: sandbox.Sandbox
    bodies: system.Bodies
    stages: Sequence[str] = WHOLE
    thresholds: Sequence[float] = ()
    measure: Measure = Measure()  # noqa: RUF009  # frozen
    repeats: int = 1
    hint: str = ""

    def __call__(self, skeleton: function.Skeleton[..., Any]) -> Evaluation:
        program = str(skeleton)
        tries = [self._judged(program)]
        while tries[-1].score is not None and len(tries) < self.repeats:
            tries.append(self._judged(program))
        return tries[0] if len(tries) == 1 else _mean(tries)

    def _judged(self, program: str) -> Evaluation:
        found = Findings()
        for number, stage in enumerate(self.stages):
            answer = sandbox.ask(self.place, {"program": program, "call": stage})
            if answer.failure is not None:
                found.fail(stage, answer, is_first=number == 0)
                break
            value: Any = answer.value
            found.take(value, answer)
            if number >= len(self.thresholds) or not passes(value["metrics"], self.thresholds[number]):
                break
        return self._evaluation(found)

    def _evaluation(self, found: Findings) -> Evaluation:
        score = self.measure.score(found.metrics)
        failure = found.failure or (None if score is not None else self._no_score(found.metrics))
        if failure is not None and self.hint and "KeyError" in failure:
            failure = f"{failure} ({self.hint})"
        scores = tuple(found.scores) or ((score,) if score is not None else ())
        made = Evaluation(
            score if failure is None else None,
            scores if failure is None else (),
            found.metrics,
            found.told(),
            self._artifacts(found),
            failure,
            found.cost,
        )
        return evaluation.clean(made)

    def _no_score(self, metrics: Mapping[str, float]) -> str:
        if self.measure.metric is None:
            return "the evaluator returned no number"
        return f"the evaluator returned no {self.measure.metric}; it returned {', '.join(metrics) or 'no number'}"

    def _artifacts(self, found: Findings) -> Mapping[str, evaluation.BlobRef]:
        """Keeps the bodies; what was printed is one of them, and no evaluation is without any."""
        bodies = {name: _bytes(body) for name, body in found.bodies.items()}
        printed = "\n".join(found.printed)
        if printed or not bodies:
            bodies[OUTPUT] = (printed or "It printed nothing.").encode("utf-8", "replace")
        return {name: self.bodies.hold(body) for name, body in bodies.items()}


def _kind(failure: str) -> str:
    """Returns in a word what went wrong, as OpenEvolve's artifacts do."""
    if "longer than" in failure:
        return "timeout"
    return failure.partition("it raised ")[2].partition(":")[0] or "crash"


def _bytes(body: JSON) -> bytes:
    if isinstance(body, Mapping):
        return base64.b64decode(str(body["base64"]))
    return str(body).encode("utf-8", "replace")


def _mean(tries: Sequence[Evaluation]) -> Evaluation:
    """Returns the mean of several judgements with its standard error; one that failed fails them all."""
    last, cost = tries[-1], sum((each.cost for each in tries), FREE)
    if last.score is None:
        return replace(last, failure=f"time {len(tries)}: {last.failure}", cost=cost)
    scores = [each.score for each in tries if each.score is not None]
    names = [name for name in last.metrics if all(name in each.metrics for each in tries)]
    metrics = {name: statistics.fmean(each.metrics[name] for each in tries) for name in names}
    error = statistics.stdev(scores) / math.sqrt(len(scores))
    rows = {len(each.scores) for each in tries}
    per_input = zip(*(each.scores for each in tries), strict=True) if len(rows) == 1 else ()
    return replace(
        last,
        score=statistics.fmean(scores),
        scores=tuple(statistics.fmean(values) for values in per_input),
        metrics={**metrics, "score_error": error},
        cost=cost,
    )

"""Proposers: suggest parameter values from feedback by average, PID control, Thompson sampling or an LLM."""

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from random import Random
from typing import Annotated, Any, NamedTuple, Protocol

import pydantic

from atoll import errors, llm
from atoll.governed.evidence.feedback import Feedback
from atoll.governed.statistics import Moments


class Suggestion(NamedTuple):
    """Value, and the confidence of its proposer from 0 to 1."""

    value: Any
    confidence: float


class Proposer(Protocol):
    """Suggests a value for a parameter. Has no side effects; equal evidence gives an equal value."""

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion: ...


def select_evidence(evidence: Sequence[Feedback], metric: str) -> Sequence[Feedback]:
    """Returns the evidence for one metric, oldest first; an empty metric selects all.

    Raises:
        SetupError: No evidence is left.
    """
    records = sorted(
        (record for record in evidence if metric in ("", record.metric)), key=lambda record: record.timestamp
    )
    if not records:
        raise errors.SetupError(f"No evidence{f' for metric {metric}' if metric else ''}. Report feedback first.")
    return records


def compute_confidence(count: float, half_count: float = 10.0) -> float:
    """Returns a confidence that grows with the evidence: 0.5 after `half_count` measurements."""
    return count / (count + half_count)


@dataclass(frozen=True, slots=True)
class EMAProposer:
    """Exponential moving average of a metric: `value += alpha * confidence * (measured - value)`.

    Attributes:
        alpha: Smoothing factor, above 0 up to 1.
        metric: Metric to follow; empty uses all evidence.
        get_initial_value: Returns the initial value for a key; None starts with the first measurement.
    """

    alpha: float = 0.3
    metric: str = ""
    get_initial_value: Callable[[str], float] | None = None

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1:
            raise errors.SetupError(f"alpha={self.alpha}: use a number above 0 and up to 1.")

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        records = select_evidence(evidence, self.metric)
        value = records[0].value if self.get_initial_value is None else self.get_initial_value(key)
        for record in records:
            value += self.alpha * record.confidence * (record.value - value)
        return Suggestion(value, compute_confidence(sum(record.confidence for record in records)))


@dataclass(frozen=True, slots=True)
class PIDProposer:
    """PID controller: suggests `value + kp * error + ki * integral + kd * slope` with error = target - measured.

    The integral stops growing while the suggestion is out of bounds (anti-windup).

    Attributes:
        read_value: Returns the current value of the parameter.
        target: Desired value of the metric.
        metric: Metric to control; empty uses all evidence.
        kp, ki, kd: Gains; negative if a larger parameter lowers the metric.
        low, high: Bounds of the parameter.
        unit: Time unit of integral and slope.
    """

    read_value: Callable[[str], float]
    target: float
    metric: str = ""
    kp: float = 0.5
    ki: float = 0.0
    kd: float = 0.0
    low: float = float("-inf")
    high: float = float("inf")
    unit: timedelta = timedelta(hours=1)

    def __post_init__(self) -> None:
        if self.low > self.high or self.unit <= timedelta(0):
            raise errors.SetupError(f"PID needs low <= high and unit > 0, not {self.low}, {self.high}, {self.unit}.")

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        records, value = select_evidence(evidence, self.metric), self.read_value(key)
        integral = slope = 0.0
        suggested = self._clamp(value + self.kp * (self.target - records[0].value))
        for previous, current in pairwise(records):
            error, previous_error = self.target - current.value, self.target - previous.value
            elapsed = (current.timestamp - previous.timestamp) / self.unit
            slope = (error - previous_error) / elapsed if elapsed else slope
            new_integral = integral + error * elapsed
            unclamped = value + self.kp * error + self.ki * new_integral + self.kd * slope
            suggested = self._clamp(unclamped)
            if suggested == unclamped:
                integral = new_integral
        return Suggestion(suggested, compute_confidence(sum(record.confidence for record in records)))

    def _clamp(self, value: float) -> float:
        return min(max(value, self.low), self.high)


NUM_DRAWS = 400  # to estimate the probability that a value is the best


@dataclass(frozen=True, slots=True)
class ThompsonProposer:
    """Thompson sampling: suggests one of several values by a draw from the posterior of each.

    `meta[field]` of the feedback names the value; feedback without it is ignored. Posteriors are normal. One
    measurement has the variance of all evidence; the prior counts as one measurement of the overall mean. The
    confidence is the probability that the value is the best.

    Attributes:
        values: Values to choose from.
        metric: Metric to maximize; empty uses all evidence.
        field: Key of the value in `meta`.
        seed: Random seed. Equal evidence and seed give an equal choice.
    """

    values: Sequence[Any]
    metric: str = ""
    field: str = "value"
    seed: int = 0

    def __post_init__(self) -> None:
        if len(self.values) < 2:
            raise errors.SetupError("ThompsonProposer needs at least two values.")

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        records = [
            record for record in select_evidence(evidence, self.metric) if record.meta and self.field in record.meta
        ]
        overall = Moments.from_values(record.value for record in records)
        arms = [
            Moments.from_values(record.value for record in records if record.meta and record.meta[self.field] == value)
            for value in self.values
        ]
        spread = overall.deviation or 1.0
        rng = Random(f"{self.seed}/{key}/{len(records)}")
        draws = [[self._draw(arm, overall.mean, spread, rng) for arm in arms] for _ in range(NUM_DRAWS)]
        best = [max(range(len(arms)), key=sample.__getitem__) for sample in draws]
        return Suggestion(self.values[best[0]], best.count(best[0]) / NUM_DRAWS)

    @staticmethod
    def _draw(arm: Moments, mean: float, spread: float, rng: Random) -> float:
        posterior_mean = (arm.mean * arm.count + mean) / (arm.count + 1)
        return rng.gauss(posterior_mean, spread / math.sqrt(arm.count + 1))


MAX_SHOWN = 20  # newest measurements in the prompt; the others are summarized

_TASK = """Propose the next value of a parameter of a running system.
Make one careful step that the evidence supports. If it supports none, return the current value with confidence 0.
State your confidence from 0 to 1.
{about}"""

_EVIDENCE = """Parameter: {key}
Current value: {value}
Measurements per metric: {summary}
Newest measurements, oldest first:
{lines}"""


class _Answer(pydantic.BaseModel):
    value: Any
    confidence: Annotated[float, pydantic.Field(ge=0, le=1)]
    rationale: str = ""


class LLMProposer:
    """Asks an LLM for the next value. The suggestion needs approval like any other.

    Args:
        model: Called once, or twice if the first response cannot be parsed.
        read_value: Returns the current value.
        description: Description of the parameter and of the goal.
        metric: Metric of the evidence to show; empty shows all.
        check: Raises ValueError for an invalid value.

    Attributes:
        rationale: Explanation in the last response.
    """

    def __init__(
        self,
        model: llm.LLM,
        read_value: Callable[[str], Any],
        *,
        description: str = "",
        metric: str = "",
        check: Callable[[Any], object] | None = None,
    ) -> None:
        self._llm = model
        self._read_value = read_value
        self._description = description
        self._metric = metric
        self._check = check
        self.rationale = ""

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        """Returns the value that the LLM suggests.

        Raises:
            LLMError: The LLM returned no response.
            InvalidResponse: The response cannot be used.
        """
        records = select_evidence(evidence, self._metric)
        answer = llm.ask_json(self._llm, self._build_prompt(key, records), _Answer)
        self.rationale = answer.rationale
        if self._check is not None:
            try:
                self._check(answer.value)
            except ValueError as error:
                raise llm.InvalidResponse(f"The LLM proposed {answer.value!r:.80} for {key}: {error}", "") from error
        return Suggestion(answer.value, answer.confidence)

    def _build_prompt(self, key: str, records: Sequence[Feedback]) -> str:
        metrics = sorted({record.metric for record in records})
        summary = {
            metric: _summarize([record.value for record in records if record.metric == metric]) for metric in metrics
        }
        lines = [
            f"{record.timestamp.isoformat()} {record.metric} = {record.value:.6g}" for record in records[-MAX_SHOWN:]
        ]
        evidence_text = _EVIDENCE.format(
            key=key, value=json.dumps(self._read_value(key)), summary=json.dumps(summary), lines="\n".join(lines)
        )
        return llm.ChatPrompt(("system", _TASK.format(about=self._description).strip()), ("user", evidence_text))


def _summarize(values: Sequence[float]) -> dict[str, float]:
    moments = Moments.from_values(values)
    return {"count": moments.count, "mean": round(moments.mean, 6), "sd": round(moments.deviation, 6)}

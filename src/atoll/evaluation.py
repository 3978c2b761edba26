"""Result of evaluating one candidate: score, metrics, feedback, artifacts, failure, cost."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

from atoll import errors
from atoll.candidate import EMPTY, JSON, clean_text


@dataclass(frozen=True, slots=True)
class Cost:
    """Cost of an evaluation or an LLM call."""

    seconds: float = 0.0
    tokens_in: int = 0
    tokens_out: int = 0
    usd: float = 0.0
    calls: int = 0

    def __add__(self, other: "Cost") -> "Cost":
        tokens = (self.tokens_in + other.tokens_in, self.tokens_out + other.tokens_out)
        return Cost(self.seconds + other.seconds, *tokens, self.usd + other.usd, self.calls + other.calls)

    def to_data(self) -> tuple[float, int, int, float, int]:
        return (self.seconds, self.tokens_in, self.tokens_out, self.usd, self.calls)


ZERO_COST = Cost()


@dataclass(frozen=True, slots=True)
class BlobRef:
    """Reference to a stored blob: its hash, size in bytes and first characters."""

    sha256: str
    size: int
    head: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation, immutable. A candidate may be evaluated several times.

    Attributes:
        score: Higher is better. None if and only if `failure` is set.
        scores: One per input or instance, in order.
        metrics: Named finite numbers.
        feedback: Text for the next prompt, also after success.
        artifacts: Named outputs in the store.
        failure: Reason for the missing score.
        cost: Cost of the evaluation.
        repeats: Further evaluations of the candidate in this mean, which count as evaluations.
    """

    score: float | None
    scores: tuple[float, ...] = ()
    metrics: Mapping[str, float] = EMPTY
    feedback: str = ""
    artifacts: Mapping[str, BlobRef] = EMPTY
    failure: str | None = None
    cost: Cost = ZERO_COST
    repeats: int = 0


def failed(failure: str, *, feedback: str = "", cost: Cost = ZERO_COST) -> Evaluation:
    """Returns an evaluation without a score, with the reason."""
    return Evaluation(None, failure=failure, feedback=feedback, cost=cost)


def validate(value: Any) -> Evaluation:
    """Converts the return value of an evaluator into a valid evaluation.

    A number becomes a score. NaN, infinity, None and text become failures, also inside an `Evaluation`. Metrics that
    are not finite numbers are dropped, and the feedback names them. Texts are cleaned with `clean_text`.
    """
    result = errors.capture(lambda: _validate(value if isinstance(value, Evaluation) else Evaluation(value)))
    return failed(f"the evaluator's result raised {result}") if isinstance(result, errors.CaughtException) else result


def _validate(evaluation: Evaluation) -> Evaluation:
    score, scores = _to_finite(evaluation.score), [_to_finite(score_value) for score_value in evaluation.scores]
    metrics = {clean_text(str(name)): _to_finite(value) for name, value in evaluation.metrics.items()}
    artifacts: Mapping[str, object] = evaluation.artifacts
    dropped = [name for name, value in metrics.items() if value is None]
    dropped += [str(name) for name, ref in artifacts.items() if not isinstance(ref, BlobRef)]
    if evaluation.failure is not None:
        failure: str | None = clean_text(str(evaluation.failure)) or "failed without a reason"
    elif score is None:
        failure = f"the score is {evaluation.score!r:.80}, not a finite number"
    elif None in scores:
        failure = f"the score of input {scores.index(None)} is {evaluation.scores[scores.index(None)]!r:.80}"
    else:
        failure = None
    return replace(
        evaluation,
        score=score if failure is None else None,
        scores=() if None in scores else tuple(score_value for score_value in scores if score_value is not None),
        metrics={name: value for name, value in metrics.items() if value is not None} or EMPTY,
        feedback=clean_text(_add_dropped_note(str(evaluation.feedback or ""), dropped)),
        artifacts={clean_text(str(name)): ref for name, ref in artifacts.items() if isinstance(ref, BlobRef)} or EMPTY,
        failure=failure,
        cost=_validate_cost(evaluation.cost),
        repeats=max(0, int(_to_finite(evaluation.repeats) or 0)),
    )


def _validate_cost(cost: object) -> Cost:
    return cost if isinstance(cost, Cost) and _to_finite(sum(cost.to_data())) is not None else ZERO_COST


def _add_dropped_note(feedback: str, dropped: list[str]) -> str:
    note = f"Dropped (not a finite number, or not stored): {', '.join(dropped)}." if dropped else ""
    return f"{feedback}\n{note}".strip() if note else feedback


def _to_finite(value: object) -> float | None:
    if type(value) is not float and (isinstance(value, (str, bytes)) or not isinstance(value, SupportsFloat)):
        return None  # the type check comes first: checking a protocol is slow
    converted = errors.capture(lambda: float(value))
    return converted if isinstance(converted, float) and math.isfinite(converted) else None


def to_data(evaluation: Evaluation) -> Mapping[str, JSON]:
    """Returns the evaluation as plain data for the journal, without empty fields."""
    data: dict[str, Any] = {"score": evaluation.score}
    for name in ("scores", "metrics", "feedback", "failure", "repeats"):
        if value := getattr(evaluation, name):
            data[name] = dict(value) if isinstance(value, Mapping) else value
    if evaluation.artifacts:
        data["artifacts"] = {name: [ref.sha256, ref.size, ref.head] for name, ref in evaluation.artifacts.items()}
    if evaluation.cost != ZERO_COST:
        data["cost"] = evaluation.cost.to_data()
    return data


def from_data(data: Mapping[str, Any]) -> Evaluation:
    """Reads the data that `to_data` wrote."""
    return Evaluation(
        data["score"],
        tuple(data.get("scores", ())),
        data.get("metrics", EMPTY),
        data.get("feedback", ""),
        {name: BlobRef(*ref) for name, ref in data["artifacts"].items()} if "artifacts" in data else EMPTY,
        data.get("failure"),
        Cost(*data["cost"]) if "cost" in data else ZERO_COST,
        data.get("repeats", 0),
    )

"""What was found out about a candidate."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, SupportsFloat

from atoll import errors
from atoll.candidate import JSON, NOTHING


@dataclass(frozen=True, slots=True)
class Cost:
    """What a judgement or a reply took."""

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


FREE = Cost()


@dataclass(frozen=True, slots=True)
class BlobRef:
    """A body that lives in the store: its hash, its size in bytes and how it begins."""

    sha256: str
    size: int
    head: str


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One judgement, frozen; a candidate may get several.

    Attributes:
        score: Higher is better. None exactly when there is a failure.
        scores: One per input or instance, in the order of the inputs.
        metrics: Named finite numbers.
        feedback: Text for the next proposal, on success too.
        artifacts: Named bodies, kept in the store.
        failure: Why there is no score.
        cost: What the judgement took.
    """

    score: float | None
    scores: tuple[float, ...] = ()
    metrics: Mapping[str, float] = NOTHING
    feedback: str = ""
    artifacts: Mapping[str, BlobRef] = NOTHING
    failure: str | None = None
    cost: Cost = FREE


def failed(failure: str, *, feedback: str = "", cost: Cost = FREE) -> Evaluation:
    """Returns the evaluation of a candidate that has no score, with the reason."""
    return Evaluation(None, failure=failure, feedback=feedback, cost=cost)


def clean(found: Any) -> Evaluation:
    """Turns whatever a judge returned into an evaluation whose invariants hold.

    A number becomes a score. NaN, infinity, None, text and everything else that is no number become failures,
    inside an `Evaluation` too. Metrics that are no finite numbers are left out, and the feedback says so.
    """
    cleaned = errors.attempt(lambda: _clean(found if isinstance(found, Evaluation) else Evaluation(found)))
    return failed(f"the judge returned what raised {cleaned}") if isinstance(cleaned, errors.Caught) else cleaned


def _clean(found: Evaluation) -> Evaluation:
    score, scores = _finite(found.score), [_finite(each) for each in found.scores]
    metrics = {str(name): _finite(value) for name, value in found.metrics.items()}
    artifacts: Mapping[str, object] = found.artifacts
    lost = [name for name, value in metrics.items() if value is None]
    lost += [str(name) for name, ref in artifacts.items() if not isinstance(ref, BlobRef)]
    if found.failure is not None:
        failure: str | None = str(found.failure) or "it failed and gave no reason"
    elif score is None:
        failure = f"the score is {found.score!r:.80}, which is no finite number"
    elif None in scores:
        failure = f"the score of input {scores.index(None)} is {found.scores[scores.index(None)]!r:.80}"
    else:
        failure = None
    return replace(
        found,
        score=score if failure is None else None,
        scores=() if None in scores else tuple(each for each in scores if each is not None),
        metrics={name: value for name, value in metrics.items() if value is not None} or NOTHING,
        feedback=_with_note(str(found.feedback or ""), lost),
        artifacts={str(name): ref for name, ref in artifacts.items() if isinstance(ref, BlobRef)} or NOTHING,
        failure=failure,
        cost=_spent(found.cost),
    )


def _spent(cost: object) -> Cost:
    return cost if isinstance(cost, Cost) and _finite(sum(cost.to_data())) is not None else FREE


def _with_note(feedback: str, lost: list[str]) -> str:
    return f"{feedback}\nLeft out, no finite number or no stored body: {', '.join(lost)}.".strip() if lost else feedback


def _finite(value: object) -> float | None:
    if type(value) is not float and (isinstance(value, (str, bytes)) or not isinstance(value, SupportsFloat)):
        return None  # (checking a protocol is slow, and most values are floats)
    number = errors.attempt(lambda: float(value))
    return number if isinstance(number, float) and math.isfinite(number) else None


def to_data(found: Evaluation) -> Mapping[str, JSON]:
    """Returns the evaluation as plain data for the journal; what is empty is left out."""
    data: dict[str, Any] = {"score": found.score}
    for name in ("scores", "metrics", "feedback", "failure"):
        if value := getattr(found, name):
            data[name] = dict(value) if isinstance(value, Mapping) else value
    if found.artifacts:
        data["artifacts"] = {name: [ref.sha256, ref.size, ref.head] for name, ref in found.artifacts.items()}
    if found.cost != FREE:
        data["cost"] = found.cost.to_data()
    return data


def from_data(data: Mapping[str, Any]) -> Evaluation:
    """Reads back what `to_data` wrote."""
    return Evaluation(
        data["score"],
        tuple(data.get("scores", ())),
        data.get("metrics", NOTHING),
        data.get("feedback", ""),
        {name: BlobRef(*ref) for name, ref in data["artifacts"].items()} if "artifacts" in data else NOTHING,
        data.get("failure"),
        Cost(*data["cost"]) if "cost" in data else FREE,
    )

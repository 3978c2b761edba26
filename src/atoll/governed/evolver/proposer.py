"""The contract of what proposes values."""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from atoll import errors
from atoll.governed.feedback.record import Feedback


class Suggestion(NamedTuple):
    """A value and how sure its proposer is, from 0 to 1."""

    value: Any
    confidence: float


class Proposer(Protocol):
    """Suggests a value for a parameter. Reads the evidence and changes nothing; the same evidence, the same value."""

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion: ...


def select_evidence(evidence: Sequence[Feedback], metric: str) -> Sequence[Feedback]:
    """Returns the evidence on one metric, or on all for an empty one, oldest first.

    Raises:
        SetupError: There is none.
    """
    records = sorted((record for record in evidence if metric in ("", record.metric)), key=lambda record: record.timestamp)
    if not records:
        raise errors.SetupError(f"There is no evidence{f' on {metric}' if metric else ''}: nothing can be proposed.")
    return records


def compute_confidence(count: float, half_count: float = 10.0) -> float:
    """Returns a confidence that grows with the evidence: 0.5 after `half` measurements."""
    return count / (count + half_count)

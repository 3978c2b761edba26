"""A language model that proposes values."""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pydantic

from atoll import llm
from atoll.governed.evolver.proposer import Suggestion, select_evidence
from atoll.governed.feedback.record import Feedback
from atoll.governed.statistics import Moments

MAX_SHOWN = 20  # measurements in the prompt, the newest; the others are summed up

_PROMPT = """A parameter of a running system is to be improved. Propose its next value.

Parameter: {key}
Present value: {value}
{about}
What was measured, per metric: {summary}
The newest measurements, oldest first:
{lines}

Make one careful step that the evidence supports. If it supports none, return the present value with confidence 0."""


class _Answer(pydantic.BaseModel):
    value: Any
    confidence: Annotated[float, pydantic.Field(ge=0, le=1)]
    rationale: str = ""


class LLMProposer:
    """Asks a model for the next value; its answer is a suggestion like any other, and needs approval like any other.

    Args:
        model: Asked once, or twice where its first answer cannot be read.
        read: Returns the present value.
        about: What the parameter does and what is wanted, in words.
        metric: Which evidence is shown; empty shows all.
        check: Raises ValueError for a value that cannot be; the model is not asked again.

    Attributes:
        rationale: What the model said about its last answer.
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
        self._llm, self._read_value, self._description, self._metric, self._check = model, read_value, description, metric, check
        self.rationale = ""

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        """Returns the model's value.

        Raises:
            NoReply: The model gave none.
            Unreadable: What it replied cannot be used.
        """
        records = select_evidence(evidence, self._metric)
        answer = llm.ask_json(self._llm, self._build_prompt(key, records), _Answer)
        self.rationale = answer.rationale
        if self._check is not None:
            try:
                self._check(answer.value)
            except ValueError as error:
                raise llm.InvalidResponse(f"The model proposed {answer.value!r:.80} for {key}: {error}", "") from error
        return Suggestion(answer.value, answer.confidence)

    def _build_prompt(self, key: str, records: Sequence[Feedback]) -> str:
        metrics = sorted({record.metric for record in records})
        summary = {metric: _summarize([record.value for record in records if record.metric == metric]) for metric in metrics}
        lines = [f"{record.timestamp.isoformat()} {record.metric} = {record.value:.6g}" for record in records[-MAX_SHOWN:]]
        return _PROMPT.format(
            key=key,
            value=json.dumps(self._read_value(key)),
            about=self._description,
            summary=json.dumps(summary),
            lines="\n".join(lines),
        )


def _summarize(values: Sequence[float]) -> dict[str, float]:
    moments = Moments.from_values(values)
    return {"count": moments.count, "mean": round(moments.mean, 6), "sd": round(moments.deviation, 6)}

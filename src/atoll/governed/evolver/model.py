"""A language model that proposes values."""

import json
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import pydantic

from atoll import llm
from atoll.governed.evolver.proposer import Suggestion, in_order
from atoll.governed.feedback.record import Feedback
from atoll.governed.statistics import Moments

NUM_SHOWN = 20  # measurements in the prompt, the newest; the others are summed up

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


class ModelProposer:
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
        read: Callable[[str], Any],
        *,
        about: str = "",
        metric: str = "",
        check: Callable[[Any], object] | None = None,
    ) -> None:
        self._model, self._read, self._about, self._metric, self._check = model, read, about, metric, check
        self.rationale = ""

    def __call__(self, key: str, evidence: Sequence[Feedback]) -> Suggestion:
        """Returns the model's value.

        Raises:
            NoReply: The model gave none.
            Unreadable: What it replied cannot be used.
        """
        found = in_order(evidence, self._metric)
        answer = llm.ask_json(self._model, self._prompt(key, found), _Answer)
        self.rationale = answer.rationale
        if self._check is not None:
            try:
                self._check(answer.value)
            except ValueError as error:
                raise llm.Unreadable(f"The model proposed {answer.value!r:.80} for {key}: {error}", "") from error
        return Suggestion(answer.value, answer.confidence)

    def _prompt(self, key: str, found: Sequence[Feedback]) -> str:
        metrics = sorted({each.metric for each in found})
        summary = {metric: _summary([each.value for each in found if each.metric == metric]) for metric in metrics}
        lines = [f"{each.timestamp.isoformat()} {each.metric} = {each.value:.6g}" for each in found[-NUM_SHOWN:]]
        return _PROMPT.format(
            key=key,
            value=json.dumps(self._read(key)),
            about=self._about,
            summary=json.dumps(summary),
            lines="\n".join(lines),
        )


def _summary(values: Sequence[float]) -> dict[str, float]:
    moments = Moments.of(values)
    return {"count": moments.count, "mean": round(moments.mean, 6), "sd": round(moments.deviation, 6)}

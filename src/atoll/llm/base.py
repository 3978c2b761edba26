"""A language model: one prompt in, one reply out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from atoll import errors
from atoll.candidate import JSON
from atoll.evaluation import ZERO_COST, Cost
from atoll.journal import CallCache


@dataclass(frozen=True, slots=True)
class Response:
    """What a model answered, whatever it is worth.

    Attributes:
        text: The whole answer, as it came.
        model: Who answered.
        cost: Seconds, tokens and US dollars.
    """

    text: str
    model: str
    cost: Cost = ZERO_COST


class LLM(Protocol):
    """Answers prompts; called from several worker threads at once."""

    def __call__(self, prompt: str, /) -> Response:
        """Returns one reply; raises, best a `NoReply`, when there is none after all retries."""


class JSONPrompt(str):
    """A prompt that asks for JSON, in its words and also by a schema, for providers that can hold a reply to one.

    It is a text like any other to whoever records, counts or forwards prompts.
    """

    __slots__ = ("schema",)

    def __new__(cls, text: str, schema: Mapping[str, JSON]) -> Self:
        prompt = super().__new__(cls, text)
        prompt.schema = schema
        return prompt

    schema: Mapping[str, JSON]


class LLMError(errors.AtollError):
    """A model gave no reply; the message names the model and says why, and never holds a key.

    Attributes:
        status: The HTTP status of the server's answer, if it gave one.
        is_transient: Whether the same request may succeed later.
        retry_seconds: How long the server wants to be left alone, if it said so.
        is_down: Whether asking anybody else's prompt is in vain too, for long: a run may as well end.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        retry_seconds: float | None = None,
        is_down: bool = False,
    ) -> None:
        super().__init__(message)
        self.status, self.is_transient, self.retry_seconds = status, is_transient, retry_seconds
        self.is_down = is_down


class JournaledLLM:
    """A model whose every reply is stored before anybody reads it, and never bought twice.

    Inside a step the journal answers what it already holds; outside of one the model is simply asked.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def __call__(self, prompt: str) -> Response:
        call_cache = CallCache.current.get()
        if call_cache is None:
            return self._llm(prompt)
        data = call_cache.get_or_call(prompt, lambda: {**_to_data(self._llm(prompt)), "prompt": prompt})
        return Response(data["text"], data["model"], Cost(*data["usage"]))


def _to_data(response: Response) -> Mapping[str, JSON]:
    cost = response.cost
    amounts = (cost.seconds, cost.tokens_in, cost.tokens_out, cost.usd)
    usage = [amount if math.isfinite(amount) and amount > 0 else 0 for amount in amounts]  # a model may say anything
    return {"text": response.text, "model": response.model, "usage": usage}

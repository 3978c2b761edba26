"""A language model: one prompt in, one reply out."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from atoll import errors
from atoll.candidate import JSON
from atoll.evaluation import FREE, Cost
from atoll.journal import Ledger


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered, whatever it is worth.

    Attributes:
        text: The whole answer, as it came.
        model: Who answered.
        cost: Seconds, tokens and US dollars.
    """

    text: str
    model: str
    cost: Cost = FREE


class LLM(Protocol):
    """Answers prompts; called from several worker threads at once."""

    def __call__(self, prompt: str, /) -> Reply:
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


class NoReply(errors.AtollError):
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


class Durable:
    """A model whose every reply is stored before anybody reads it, and never bought twice.

    Inside a step the journal answers what it already holds; outside of one the model is simply asked.
    """

    def __init__(self, llm: LLM) -> None:
        self._llm = llm

    def __call__(self, prompt: str) -> Reply:
        ledger = Ledger.current.get()
        if ledger is None:
            return self._llm(prompt)
        bought = ledger.once(prompt, lambda: {**_to_data(self._llm(prompt)), "prompt": prompt})
        return Reply(bought["text"], bought["model"], Cost(*bought["usage"]))


def _to_data(reply: Reply) -> Mapping[str, JSON]:
    cost = reply.cost
    amounts = (cost.seconds, cost.tokens_in, cost.tokens_out, cost.usd)
    usage = [each if math.isfinite(each) and each > 0 else 0 for each in amounts]  # a model may say anything
    return {"text": reply.text, "model": reply.model, "usage": usage}

"""The LLM interface: one prompt in, one response out."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, Self

from atoll import errors
from atoll.candidate import JSON, clean_text
from atoll.evaluation import ZERO_COST, Cost
from atoll.journal import CallCache

MAX_RESPONSE_CHARS = 2**20  # far above any useful response; protects memory and the time of parsers
_MAX_AMOUNT = 1e15  # of reported tokens, dollars and seconds


@dataclass(frozen=True, slots=True)
class Response:
    """Response of an LLM.

    Every LLM and every stored response becomes one, so this is where text is cleaned.

    Attributes:
        text: The text; U+FFFD replaces characters that cannot be stored, and only the first million are kept.
        model: Name of the model that responded.
        cost: Seconds, tokens and US dollars.
    """

    text: str
    model: str
    cost: Cost = ZERO_COST

    def __post_init__(self) -> None:
        for name, value in (("text", self.text), ("model", self.model)):
            if not isinstance(value, str):
                raise TypeError(f"The {name} of an LLM response is {value!r:.60}, which is not a str.")
            object.__setattr__(self, name, clean_text(value[:MAX_RESPONSE_CHARS]))


class LLM(Protocol):
    """Answers prompts. Several worker threads call it at once."""

    def __call__(self, prompt: str, /) -> Response:
        """Returns one response; raises, preferably `LLMError`, after all retries have failed."""


class JSONPrompt(str):
    """Prompt that asks for JSON in words and carries its schema, for providers that enforce one.

    Code that records, counts or forwards prompts can treat it as a plain string.
    """

    __slots__ = ("schema",)

    def __new__(cls, text: str, schema: Mapping[str, JSON]) -> Self:
        prompt = super().__new__(cls, text)
        prompt.schema = schema
        return prompt

    schema: Mapping[str, JSON]


class LLMError(errors.AtollError):
    """The LLM did not respond. The message names the model and the reason and never contains an API key.

    Attributes:
        status: HTTP status, if the server sent one.
        is_transient: Whether the same request may succeed later.
        retry_seconds: Seconds that the server asked its clients to wait, if any.
        is_down: Whether other prompts would fail too, for long; the run should stop.
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
    """LLM whose responses are stored before they are used and never paid for twice.

    Inside an iteration the journal supplies responses that it already has. Outside of one it only forwards prompts.
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
    usage = [amount if 0 < amount < _MAX_AMOUNT else 0 for amount in amounts]  # an LLM may report anything
    return {"text": response.text, "model": response.model, "usage": usage}

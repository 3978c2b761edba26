"""The LLM interface: one prompt in, one response out."""

import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Literal, Protocol, Self

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
        text: The text; U+FFFD replaces characters that cannot be stored, and text after the first million is cut.
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


_SEPARATOR = "\n\n"

type Role = Literal["system", "user", "assistant"]
type Message = tuple[Role, str]


class ChatPrompt(str):
    """Prompt of several messages. As a string it is their texts joined, for LLMs without roles, hashes and records.

    A plain string is a prompt of one user message.

    Attributes:
        messages: (role, text) of each message that has a text.
        schema: JSON schema of the response, for providers that enforce one; the text asks for it in words too.
        temperature_shift: Added to the configured temperature, if there is one: a repeated response should differ.
        effort_shift: Levels added to the configured reasoning effort, if there is one.
    """

    __slots__ = ("effort_shift", "messages", "schema", "temperature_shift")
    messages: tuple[Message, ...]
    schema: Mapping[str, JSON] | None
    temperature_shift: float
    effort_shift: int

    def __new__(
        cls,
        *messages: Message,
        schema: Mapping[str, JSON] | None = None,
        temperature_shift: float = 0.0,
        effort_shift: int = 0,
    ) -> Self:
        filled = tuple((role, str(text)) for role, text in messages if text)
        prompt = super().__new__(cls, _SEPARATOR.join(_format_message(*message) for message in filled))
        prompt.messages, prompt.schema, prompt.temperature_shift = filled, schema, temperature_shift
        prompt.effort_shift = effort_shift
        return prompt

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore_prompt, (self.messages, self.schema, self.temperature_shift, self.effort_shift)


def _format_message(role: Role, text: str) -> str:
    if role != "assistant":
        return text
    fence = max(["```", *(f"{run}`" for run in re.findall("`{3,}", text))], key=len)  # longer than any inside
    return f"You answered:\n{fence}\n{text}\n{fence}"


def _restore_prompt(
    messages: tuple[Message, ...], schema: Mapping[str, JSON] | None, temperature_shift: float, effort_shift: int = 0
) -> ChatPrompt:
    return ChatPrompt(*messages, schema=schema, temperature_shift=temperature_shift, effort_shift=effort_shift)


def get_messages(prompt: str) -> tuple[Message, ...]:
    """Returns the messages of a prompt."""
    return prompt.messages if isinstance(prompt, ChatPrompt) else (("user", str(prompt)),)


def get_schema(prompt: str) -> Mapping[str, JSON] | None:
    """Returns the JSON schema of a prompt, if it has one."""
    return prompt.schema if isinstance(prompt, ChatPrompt) else None


def shift_temperature(temperature: float, prompt: str, maximum: float) -> float:
    """Returns the temperature for a prompt: the configured one, raised up to a maximum if the prompt asks for it."""
    shift = prompt.temperature_shift if isinstance(prompt, ChatPrompt) else 0.0
    return round(min(temperature + shift, max(temperature, maximum)), 6)


def continue_prompt(prompt: str, response: str, request: str, *, temperature_shift: float = 0.0) -> ChatPrompt:
    """Returns the prompt of a second call: the first prompt, the response to it, and a further request.

    A repair needs less reasoning than the first response.
    """
    messages: Sequence[Message] = (*get_messages(prompt), ("assistant", response), ("user", request))
    return ChatPrompt(*messages, schema=get_schema(prompt), temperature_shift=temperature_shift, effort_shift=-1)


class LLMError(errors.AtollError):
    """The LLM did not respond. The message names the model and the reason and never contains an API key.

    Attributes:
        status: HTTP status, if the server sent one.
        is_transient: Whether the same request may succeed later.
        retry_seconds: Seconds that the server asked its clients to wait, if any.
        is_down: Whether other prompts would fail too, for long; the run should stop.
        cost: Cost of the failed request; None if unknown: a budget then charges its highest possible cost.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        retry_seconds: float | None = None,
        is_down: bool = False,
        cost: Cost | None = None,
    ) -> None:
        super().__init__(message)
        self.status, self.is_transient, self.retry_seconds = status, is_transient, retry_seconds
        self.is_down, self.cost = is_down, cost


class BudgetExhausted(LLMError, errors.BudgetUsed):
    """The call does not fit in the budget, so nothing was sent."""


class RequestMeter(Protocol):
    """Counts the requests of one LLM call. Code that sends a request again asks the current meter first."""

    def reserve(self) -> None:
        """Reserves a request before it is sent; does nothing if one is reserved.

        Raises:
            BudgetExhausted: It must not be sent.
        """

    def fail(self, cost: Cost | None) -> None:
        """Settles a failed request; does nothing if none is reserved. None: the cost is unknown."""


current_meter: ContextVar[RequestMeter | None] = ContextVar("atoll_requests", default=None)


class IterationMeter:
    """Counts the requests of a call against the limit of its iteration."""

    def __init__(self, call_cache: CallCache) -> None:
        self._call_cache, self._is_reserved = call_cache, True  # `CallCache` has counted the first request
        self._needs_count = True

    def reserve(self) -> None:
        if not self._is_reserved and self._needs_count:
            try:
                self._call_cache.limit.count()
            except errors.BudgetUsed as error:
                raise BudgetExhausted(str(error), cost=ZERO_COST) from None
        self._is_reserved = True

    def fail(self, cost: Cost | None) -> None:
        if self._is_reserved:
            actual_cost = Cost(calls=1) if cost is None else cost
            self._is_reserved, self._needs_count = False, actual_cost.calls > 0  # else nothing was sent
            self._call_cache.cost += actual_cost


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
        try:
            data = call_cache.get_or_call(prompt, lambda: self._call(prompt, IterationMeter(call_cache)))
        except BudgetExhausted:
            raise
        except errors.BudgetUsed as error:
            raise BudgetExhausted(str(error), cost=ZERO_COST) from None
        return Response(data["text"], data["model"], Cost(*data["usage"]))

    def _call(self, prompt: str, meter: IterationMeter) -> Mapping[str, JSON]:
        token = current_meter.set(meter)
        try:
            return {**_to_data(self._llm(prompt)), **_prompt_to_data(prompt)}
        except BaseException as error:
            meter.fail(get_cost(error))
            raise
        finally:
            current_meter.reset(token)


def get_cost(error: BaseException) -> Cost | None:
    """Returns the cost of a failed request, if it is known. An error in the set-up comes before any request."""
    if isinstance(error, LLMError):
        return error.cost
    return ZERO_COST if isinstance(error, errors.AtollError) else None


def _prompt_to_data(prompt: str) -> Mapping[str, JSON]:
    """Returns the text of a prompt and, if it has several messages, the role and the length of each."""
    lengths: list[JSON] = [[role, len(_format_message(role, text))] for role, text in get_messages(prompt)]
    return {"prompt": str(prompt), **({"roles": lengths} if len(lengths) > 1 else {})}


def split_stored_prompt(data: Mapping[str, Any]) -> Sequence[tuple[str, str]]:
    """Returns (role, text) of the messages of a prompt as `JournaledLLM` stores it."""
    text, start, messages = str(data.get("prompt") or ""), 0, list[tuple[str, str]]()
    for role, length in data.get("roles") or [["user", len(text)]]:
        messages.append((role, text[start : start + length]))
        start += length + len(_SEPARATOR)
    return messages


def _to_data(response: Response) -> Mapping[str, JSON]:
    cost = response.cost
    amounts = (cost.seconds, cost.tokens_in, cost.tokens_out, cost.usd)
    usage = [min(amount, _MAX_AMOUNT) if amount > 0 else 0 for amount in amounts]  # an LLM may report anything
    return {"text": response.text, "model": response.model, "usage": usage}

"""The LLM interface: one prompt in, one response out."""

import math
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol, Self

from atoll import errors
from atoll.candidate import JSON
from atoll.evaluation import ZERO_COST, Cost
from atoll.journal import CallCache


@dataclass(frozen=True, slots=True)
class Response:
    """Response of an LLM.

    Attributes:
        text: Full text, unchanged.
        model: Name of the model that responded.
        cost: Seconds, tokens and US dollars.
    """

    text: str
    model: str
    cost: Cost = ZERO_COST


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
        cost: Cost of the failed request; None if unknown: a budget then charges the most that it may cost.
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
            return {**_to_data(self._llm(prompt)), "prompt": prompt}
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


def _to_data(response: Response) -> Mapping[str, JSON]:
    cost = response.cost
    amounts = (cost.seconds, cost.tokens_in, cost.tokens_out, cost.usd)
    usage = [amount if math.isfinite(amount) and amount > 0 else 0 for amount in amounts]  # an LLM may report anything
    return {"text": response.text, "model": response.model, "usage": usage}

"""How a model chooses its words; what is None is left to the provider, and 0 is passed on."""

from dataclasses import dataclass
from typing import Literal

from atoll import errors
from atoll.llm.policy import check_range

type Thinking = Literal["off", "minimal", "low", "medium", "high"]

THINKING_LEVELS = ("off", "minimal", "low", "medium", "high")


@dataclass(frozen=True, slots=True)
class SamplingOptions:
    """Options of a request.

    Attributes:
        temperature: 0 is the likeliest word each time.
        top_p: Only the likeliest words that make up this share.
        top_k: Only so many of the likeliest words; only some providers know it.
        seed: For providers that repeat themselves if asked to.
        max_tokens: The most that a reply may have.
        thinking: How hard a model that reasons shall try.
        stream: Whether the reply is sent as it is made; it is put together before anybody sees it.

    Raises:
        SetupError: One is out of its range.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    max_tokens: int | None = None
    thinking: Thinking | None = None
    stream: bool = False

    def __post_init__(self) -> None:
        if self.temperature is not None:
            check_range("temperature", self.temperature)
        for name in ("top_p", "top_k", "max_tokens"):
            if (value := getattr(self, name)) is not None:
                check_range(name, value, above=0)
        if self.thinking is not None and self.thinking not in THINKING_LEVELS:
            raise errors.SetupError(f"thinking is {self.thinking!r}: give one of {', '.join(THINKING_LEVELS)}.")

"""What is said when a server gives no reply: who, why, and what to do; never a key."""

import re

from atoll.llm.base import LLMError
from atoll.llm.endpoint import Endpoint

_MAX_MESSAGE_CHARS = 300  # characters of what the server said: a whole HTML page helps nobody
_REMEDIES = {
    400: "Change what the server objects to.",
    402: "Top up the account.",
    403: "Use a key that may ask this model.",
    404: "Check the name of the model and the address, which mostly ends in /v1.",
    413: "Use shorter prompts.",
    429: "Use fewer workers, or wait.",
}


class LLMErrorFactory:
    """Makes the errors of one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def make_status_error(
        self, status: int, server_message: str, retry_seconds: float | None, *, is_quota_exceeded: bool
    ) -> LLMError:
        """The server answered with an error; `is_spent` says that the account is empty."""
        is_transient = (status in (408, 429) or status >= 500) and not is_quota_exceeded
        remedies = {**_REMEDIES, 401: f"Set a valid key in {self._endpoint.key_variable}."}
        remedy = remedies.get(
            402 if is_quota_exceeded else status, "Ask again later." if is_transient else _REMEDIES[400]
        )
        reason = f"status {status}, {server_message}"
        return self._make_error(reason, remedy, status=status, is_transient=is_transient, retry_seconds=retry_seconds)

    def make_timeout_error(self, seconds: float) -> LLMError:
        """Nothing came in time."""
        remedy = "Raise timeout_seconds, or ask a faster server."
        return self._make_error(f"nothing came within {seconds:g} seconds", remedy, is_transient=True)

    def make_connection_error(self, reason: str) -> LLMError:
        """The server is not there, or broke off."""
        return self._make_error(reason, "See that the server runs and that the address is right.", is_transient=True)

    def make_invalid_response_error(self, reason: str) -> LLMError:
        """What came is no answer of a model."""
        return self._make_error(reason, "See that the server speaks OpenAI's chat completions.")

    def make_too_large_error(self, reason: str) -> LLMError:
        """Nobody would read so much."""
        return self._make_error(reason, "Set max_tokens.")

    def make_empty_response_error(self, finish_reason: object) -> LLMError:
        """The answer has no text."""
        remedy = "Raise max_tokens." if finish_reason == "length" else "Change the prompt, or the model."
        return self._make_error(f"its text is empty, and it ended for {finish_reason!r}", remedy)

    def make_encoding_error(self, error: UnicodeEncodeError) -> LLMError:
        """The prompt has half characters."""
        reason = f"the prompt is no text that can be sent, {error.reason}"
        return self._make_error(reason, "Leave out half characters (surrogates).")

    def _make_error(
        self,
        reason: str,
        remedy: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        retry_seconds: float | None = None,
    ) -> LLMError:
        prefix = f"Model {self._endpoint.model} at {self._endpoint.base_url} gave no reply"
        message = f"{self._sanitize(prefix)}: {self._sanitize(reason)}. {remedy}"
        return LLMError(message, status=status, is_transient=is_transient, retry_seconds=retry_seconds)

    def _sanitize(self, text: str) -> str:
        """Returns a text on one line, not too long, without the key, which some servers repeat."""
        key_pattern = rf"\b{re.escape(self._endpoint.api_key)}\b"  # "x" is a key too, for some
        line = re.sub(key_pattern, "***", self._endpoint.remove_key(" ".join(text.split()))).rstrip(".")
        return line if len(line) <= _MAX_MESSAGE_CHARS else f"{line[:_MAX_MESSAGE_CHARS]}..."

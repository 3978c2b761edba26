"""What is said when a server gives no reply: who, why, and what to do; never a key."""

import re

from atoll.llm.endpoint import Endpoint
from atoll.llm.llm import NoReply

_MAX_SHOWN = 300  # characters of what the server said: a whole HTML page helps nobody
_CURES = {
    400: "Change what the server objects to.",
    402: "Top up the account.",
    403: "Use a key that may ask this model.",
    404: "Check the name of the model and the address, which mostly ends in /v1.",
    413: "Use shorter prompts.",
    429: "Use fewer workers, or wait.",
}


class Complaints:
    """Makes the errors of one endpoint."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint

    def refused(self, status: int, said: str, retry_seconds: float | None, *, is_spent: bool) -> NoReply:
        """The server answered with an error; `is_spent` says that the account is empty."""
        is_transient = (status in (408, 429) or status >= 500) and not is_spent
        cures = {**_CURES, 401: f"Set a valid key in {self._endpoint.key_variable}."}
        cure = cures.get(402 if is_spent else status, "Ask again later." if is_transient else _CURES[400])
        why = f"status {status}, {said}"
        return self._no_reply(why, cure, status=status, is_transient=is_transient, retry_seconds=retry_seconds)

    def silent(self, seconds: float) -> NoReply:
        """Nothing came in time."""
        cure = "Raise timeout_seconds, or ask a faster server."
        return self._no_reply(f"nothing came within {seconds:g} seconds", cure, is_transient=True)

    def lost(self, why: str) -> NoReply:
        """The server is not there, or broke off."""
        return self._no_reply(why, "See that the server runs and that the address is right.", is_transient=True)

    def foreign(self, why: str) -> NoReply:
        """What came is no answer of a model."""
        return self._no_reply(why, "See that the server speaks OpenAI's chat completions.")

    def too_long(self, why: str) -> NoReply:
        """Nobody would read so much."""
        return self._no_reply(why, "Set max_tokens.")

    def empty(self, finish_reason: object) -> NoReply:
        """The answer has no text."""
        cure = "Raise max_tokens." if finish_reason == "length" else "Change the prompt, or the model."
        return self._no_reply(f"its text is empty, and it ended for {finish_reason!r}", cure)

    def unsendable(self, error: UnicodeEncodeError) -> NoReply:
        """The prompt has half characters."""
        why = f"the prompt is no text that can be sent, {error.reason}"
        return self._no_reply(why, "Leave out half characters (surrogates).")

    def _no_reply(
        self,
        why: str,
        cure: str,
        *,
        status: int | None = None,
        is_transient: bool = False,
        retry_seconds: float | None = None,
    ) -> NoReply:
        where = f"Model {self._endpoint.model} at {self._endpoint.base_url} gave no reply"
        message = f"{self._shown(where)}: {self._shown(why)}. {cure}"
        return NoReply(message, status=status, is_transient=is_transient, retry_seconds=retry_seconds)

    def _shown(self, text: str) -> str:
        """Returns a text on one line, not too long, without the key, which some servers repeat."""
        short = rf"\b{re.escape(self._endpoint.api_key)}\b"  # "x" is a key too, for some
        line = re.sub(short, "***", self._endpoint.without_key(" ".join(text.split()))).rstrip(".")
        return line if len(line) <= _MAX_SHOWN else f"{line[:_MAX_SHOWN]}..."

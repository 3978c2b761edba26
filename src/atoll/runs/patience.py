"""When to give up on a model: a run should not use up its steps on one that does not answer."""

from collections.abc import Callable
from threading import Lock

from atoll import llm

MAX_FAILURES = 10  # in a row; the model has had its retries for each of them
MAX_REFUSALS = 3  # in a row, of the kind that no repetition helps: a wrong key, a wrong name


class LLMFailureLimit:
    """A model that counts how often in a row it gave no reply; thread-safe.

    Attributes:
        lost: Why to give up; empty while there is hope.
    """

    def __init__(self, base_llm: llm.LLM, on_stop: Callable[[str], None] = lambda reason: None) -> None:
        """Takes the model.

        Args:
            model: Who is asked.
            on_lost: Told why, once, by the thread whose prompt was the last straw: at once, or other threads would use
                up the steps that are left.
        """
        self._llm, self._on_stop, self._lock = base_llm, on_stop, Lock()
        self._failures = self._refusals = 0
        self.stop_reason = ""

    def __call__(self, prompt: str) -> llm.Response:
        if self.stop_reason:
            raise llm.LLMError(self.stop_reason, is_down=True)
        try:
            response = self._llm(prompt)
        except Exception as error:
            self._count_failure(error)
            raise
        with self._lock:
            self._failures = self._refusals = 0
        return response

    def _count_failure(self, error: Exception) -> None:
        is_refusal = isinstance(error, llm.LLMError) and error.status in (401, 402, 403, 404)
        is_down = isinstance(error, llm.LLMError) and error.is_down
        with self._lock:
            self._failures, self._refusals = self._failures + 1, self._refusals + 1 if is_refusal else 0
            repeat_text = f" {self._failures} times in a row" if self._failures > 1 else ""
            is_over = is_down or self._failures >= MAX_FAILURES or self._refusals >= MAX_REFUSALS
            is_first = is_over and not self.stop_reason
            self.stop_reason = f"the model gave no reply{repeat_text}: {error}" if is_first else self.stop_reason
        if is_first:
            self._on_stop(self.stop_reason)

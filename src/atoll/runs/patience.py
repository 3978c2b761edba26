"""When to give up on a model: a run should not use up its steps on one that does not answer."""

from collections.abc import Callable
from threading import Lock

from atoll import llm

MOST_FAULTS = 10  # in a row; the model has had its retries for each of them
MOST_REFUSALS = 3  # in a row, of the kind that no repetition helps: a wrong key, a wrong name


class Patience:
    """A model that counts how often in a row it gave no reply; thread-safe.

    Attributes:
        lost: Why to give up; empty while there is hope.
    """

    def __init__(self, model: llm.LLM, on_lost: Callable[[str], None] = lambda why: None) -> None:
        """Takes the model.

        Args:
            model: Who is asked.
            on_lost: Told why, once, by the thread whose prompt was the last straw: at once, or other threads would use
                up the steps that are left.
        """
        self._model, self._on_lost, self._lock = model, on_lost, Lock()
        self._faults = self._refusals = 0
        self.lost = ""

    def __call__(self, prompt: str) -> llm.Reply:
        if self.lost:
            raise llm.NoReply(self.lost, is_down=True)
        try:
            reply = self._model(prompt)
        except Exception as error:
            self._count(error)
            raise
        with self._lock:
            self._faults = self._refusals = 0
        return reply

    def _count(self, error: Exception) -> None:
        is_refusal = isinstance(error, llm.NoReply) and error.status in (401, 402, 403, 404)
        is_down = isinstance(error, llm.NoReply) and error.is_down
        with self._lock:
            self._faults, self._refusals = self._faults + 1, self._refusals + 1 if is_refusal else 0
            often = f" {self._faults} times in a row" if self._faults > 1 else ""
            is_over = is_down or self._faults >= MOST_FAULTS or self._refusals >= MOST_REFUSALS
            is_news = is_over and not self.lost
            self.lost = f"the model gave no reply{often}: {error}" if is_news else self.lost
        if is_news:
            self._on_lost(self.lost)

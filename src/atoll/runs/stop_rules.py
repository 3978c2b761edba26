"""When a run ends before its budget: a score that is enough, or too many steps without a gain."""

from collections.abc import Callable, Sequence
from threading import Lock

from atoll import config, control, llm, store


class PlateauRule:
    """Stops after `patience` steps in which the best score did not gain at least `least`.

    Small gains add up: they count together once they reach `least`. Called under the lock, in the order of the steps.

    Args:
        patience: Steps.
        least: The gain that counts; 0: any.
        before: Steps and scores of a run that goes on, in the order of the steps.
    """

    def __init__(self, patience: int, min_gain: float, history: Sequence[tuple[int, float]] = ()) -> None:
        self._patience, self._min_gain = patience, min_gain
        self._best: float | None = None
        self._best_step = 0
        for step, score in history:
            self._update(step, score)

    def __call__(self, progress: control.RunProgress) -> str | None:
        if progress.best_score is not None:
            self._update(progress.applied_count, progress.best_score)
        gain = f" of at least {self._min_gain:g}" if self._min_gain else ""
        return (
            f"no gain{gain} in {self._patience} steps"
            if progress.applied_count - self._best_step >= self._patience
            else None
        )

    def _update(self, step: int, score: float) -> None:
        if self._best is None or (score > self._best and score - self._best >= self._min_gain):
            self._best, self._best_step = score, step


def make_stop_rules(settings: config.RunSettings, run_store: store.Store, run_id: str) -> Sequence[control.StopRule]:
    """Returns the rules that the settings of a run ask for."""
    rules: list[control.StopRule] = []
    if settings.target is not None:
        rules.append(control.make_target_rule(settings.target))
    if settings.patience is not None:
        rows = ((row.step, row.score) for row in run_store.candidates(run_id) if row.score is not None and row.verdict)
        rules.append(PlateauRule(settings.patience, settings.min_gain, sorted(rows)))
    return rules


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

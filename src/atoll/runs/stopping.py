"""When a run ends before its budget: a score that is enough, or too many steps without a gain."""

from collections.abc import Sequence

from atoll import config, control, store


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
        return f"no gain{gain} in {self._patience} steps" if progress.applied_count - self._best_step >= self._patience else None

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
        rules.append(PlateauRule(settings.patience, settings.least_gain, sorted(rows)))
    return rules

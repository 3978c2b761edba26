"""When a run ends before its budget: a score that is enough, or too many steps without a gain."""

from collections.abc import Sequence

from atoll import config, control, store


class Plateau:
    """Stops after `patience` steps in which the best score did not gain at least `least`.

    Small gains add up: they count together once they reach `least`. Called under the lock, in the order of the steps.

    Args:
        patience: Steps.
        least: The gain that counts; 0: any.
        before: Steps and scores of a run that goes on, in the order of the steps.
    """

    def __init__(self, patience: int, least: float, before: Sequence[tuple[int, float]] = ()) -> None:
        self._patience, self._least = patience, least
        self._best: float | None = None
        self._since = 0
        for step, score in before:
            self._see(step, score)

    def __call__(self, now: control.Progress) -> str | None:
        if now.best_score is not None:
            self._see(now.applied, now.best_score)
        gain = f" of at least {self._least:g}" if self._least else ""
        return f"no gain{gain} in {self._patience} steps" if now.applied - self._since >= self._patience else None

    def _see(self, step: int, score: float) -> None:
        if self._best is None or (score > self._best and score - self._best >= self._least):
            self._best, self._since = score, step


def stop_rules(wanted: config.RunSettings, kept: store.Store, run: str) -> Sequence[control.StopRule]:
    """Returns the rules that the settings of a run ask for."""
    rules: list[control.StopRule] = []
    if wanted.target is not None:
        rules.append(control.target(wanted.target))
    if wanted.patience is not None:
        rows = ((row.step, row.score) for row in kept.candidates(run) if row.score is not None and row.verdict)
        rules.append(Plateau(wanted.patience, wanted.least_gain, sorted(rows)))
    return rules

"""Plain ways beside evolution at equal budget: best of N and sequential conditioning, and a sentence on who is better.

Best of N makes every child from the start, sequential conditioning every child from the best so far, both with the
engines, the judge and the seeds of evolution (`atoll.runs.methods`). What matches evolution is told as plainly as what
loses to it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from atoll import config, control, system
from atoll.runs import search_methods

type Figures = Mapping[str, Sequence[float]]  # of each method, seed by seed

EVOLUTION = "Atoll"
METHODS: Mapping[str, config.Method] = {EVOLUTION: "evolve", "best of N": "best_of_n", "sequential": "sequential"}
LEAST_SEEDS = 3  # fewer resampled always seem to agree
_STEPS = 10  # times the evaluations: a child that was judged before costs none, and best of N has only so many


def change(name: str) -> Callable[[system.BuiltSystem], system.BuiltSystem]:
    """Returns what makes the parts of an evolution those of a method."""
    return partial(search_methods.apply_method, METHODS[name])


def budget(evaluations: int) -> control.Budget:
    """Returns what every method may use: it ends too where nothing new is left to judge."""
    return control.Budget(iterations=_STEPS * evaluations, evaluations=evaluations)


def interval(values: Sequence[float], draws: int = 10_000) -> tuple[float, float, float]:
    """Returns the mean with its bootstrap interval of 95 %."""
    found = np.asarray(values, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(found), (draws, len(found)))
    low, high = np.percentile(found[picks].mean(axis=1), (2.5, 97.5))
    return float(found.mean()), float(low), float(high)


def shown(values: Sequence[float]) -> str:
    """Returns the mean and its interval as text."""
    return "{:.4g} [{:.4g}, {:.4g}]".format(*interval(values))


class Lead(NamedTuple):
    """By how much evolution is better on the same seeds, with 95 % of where the mean may lie."""

    mean: float
    low: float
    high: float
    num_seeds: int

    @property
    def word(self) -> str:
        """Says how evolution stands; a lead whose interval holds 0 is none, and one over few seeds is not told."""
        if self.num_seeds < LEAST_SEEDS:
            return "UNDECIDED"
        return "better" if self.low > 0 else "BEATEN" if self.high < 0 else "MATCHED"

    def __str__(self) -> str:
        return f"{self.mean:+.4g}, {self.low:+.4g} to {self.high:+.4g} over {self.num_seeds} seeds"


def lead(ours: Sequence[float], theirs: Sequence[float], *, is_lower_better: bool = False) -> Lead:
    """Compares figures of the same seeds, as far as both have them."""
    pairs = zip(ours, theirs, strict=False)
    gained = [other - own if is_lower_better else own - other for own, other in pairs]
    return Lead(*interval(gained), len(gained))


def verdicts(what: str, found: Figures, *, is_lower_better: bool = False) -> Sequence[str]:
    """Says of each plain way whether evolution is better.

    Args:
        what: Where, for the sentences.
        found: The figures of each method, seed by seed, `EVOLUTION` among them.
        is_lower_better: Whether the figures are errors.
    """
    leads = {name: lead(found[EVOLUTION], found[name], is_lower_better=is_lower_better) for name in _plain(found)}
    said = {"better": "is better than", "BEATEN": "is BEATEN by", "MATCHED": "is MATCHED by"}
    said["UNDECIDED"] = "is compared on too few seeds with"
    return [f"{what}: evolution {said[each.word]} {name} ({each})." for name, each in leads.items()]


def compared(
    what: str, found: Mapping[str, Figures], *, is_lower_better: bool = False
) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """Returns a table with a row for each thing that was measured: the means of all methods, and evolution's leads.

    Args:
        what: What the things are, for the heading.
        found: By thing: the figures of each method, seed by seed; the same methods for each.
        is_lower_better: Whether the figures are errors.
    """
    names = list(next(iter(found.values())))
    rows: list[list[object]] = []
    for thing, figures in found.items():
        leads = (lead(figures[EVOLUTION], figures[name], is_lower_better=is_lower_better) for name in _plain(figures))
        rows.append([thing, *(shown(figures[name]) for name in names), *(f"{each.word} ({each})" for each in leads)])
    return [what, *names, *(f"evolution against {name}" for name in names if name != EVOLUTION)], rows


def tally(found: Mapping[str, Figures], *, is_lower_better: bool = False) -> Sequence[str]:
    """Says of each plain way how often evolution is better, of all things that were measured."""
    told: list[str] = []
    for name in _plain(next(iter(found.values()))):
        leads = [lead(each[EVOLUTION], each[name], is_lower_better=is_lower_better) for each in found.values()]
        words = [each.word for each in leads]
        undecided = f", UNDECIDED (too few seeds) on {words.count('UNDECIDED')}" if "UNDECIDED" in words else ""
        told.append(
            f"Evolution against {name}, {leads[0].num_seeds} seeds: better on {words.count('better')}, MATCHED on "
            f"{words.count('MATCHED')} (the interval of the paired difference holds 0), BEATEN on "
            f"{words.count('BEATEN')}{undecided} of {len(words)} figures."
        )
    return told


def _plain(found: Figures) -> Sequence[str]:
    return [name for name in found if name != EVOLUTION]

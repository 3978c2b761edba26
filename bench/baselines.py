"""Baselines for evolution at equal budget: best of N and sequential, with a sentence on which is better.

Best of N makes every child from the initial program. Sequential makes every child from the best program so far. Both
use the engines, evaluator and seeds of evolution (`atoll.runs.search_methods`). Ties and losses are reported as clearly
as wins.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from atoll import config, control, system
from atoll.runs import search_methods

type Figures = Mapping[str, Sequence[float]]  # values of each method by seed

EVOLUTION = "Atoll"
METHODS: Mapping[str, config.Method] = {EVOLUTION: "evolve", "best of N": "best_of_n", "sequential": "sequential"}
LEAST_SEEDS = 3  # bootstrap intervals of fewer seeds are too narrow
_STEPS = 10  # iterations per evaluation: repeated children cost no evaluation


def change(name: str) -> Callable[[system.BuiltSystem], system.BuiltSystem]:
    """Returns a function that turns an evolution into a baseline method."""
    return partial(search_methods.apply_method, METHODS[name])


def budget(evaluations: int) -> control.Budget:
    """Returns the budget of every method. A run also ends when it finds no new candidates."""
    return control.Budget(iterations=_STEPS * evaluations, evaluations=evaluations)


def interval(values: Sequence[float], draws: int = 10_000) -> tuple[float, float, float]:
    """Returns the mean with its 95 % bootstrap interval."""
    array = np.asarray(values, dtype=float)
    picks = np.random.default_rng(0).integers(0, len(array), (draws, len(array)))
    low, high = np.percentile(array[picks].mean(axis=1), (2.5, 97.5))
    return float(array.mean()), float(low), float(high)


def format_interval(values: Sequence[float]) -> str:
    """Formats the mean and its interval."""
    return "{:.4g} [{:.4g}, {:.4g}]".format(*interval(values))


class Lead(NamedTuple):
    """Mean advantage of evolution on the same seeds, with its 95 % interval."""

    mean: float
    low: float
    high: float
    num_seeds: int

    @property
    def word(self) -> str:
        """Result as one word. An interval that contains 0 is a tie; few seeds are undecided."""
        if self.num_seeds < LEAST_SEEDS:
            return "UNDECIDED"
        return "better" if self.low > 0 else "BEATEN" if self.high < 0 else "MATCHED"

    def __str__(self) -> str:
        return f"{self.mean:+.4g}, {self.low:+.4g} to {self.high:+.4g} over {self.num_seeds} seeds"


def lead(ours: Sequence[float], theirs: Sequence[float], *, is_lower_better: bool = False) -> Lead:
    """Compares values of the same seeds, as far as both have them."""
    pairs = zip(ours, theirs, strict=False)
    gained = [other - own if is_lower_better else own - other for own, other in pairs]
    return Lead(*interval(gained), len(gained))


def verdicts(subject: str, figures: Figures, *, is_lower_better: bool = False) -> Sequence[str]:
    """Describes for each baseline whether evolution is better.

    Args:
        subject: Subject of the sentences.
        figures: Values of each method by seed, `EVOLUTION` included.
        is_lower_better: Whether the values are errors.
    """
    leads = {name: lead(figures[EVOLUTION], figures[name], is_lower_better=is_lower_better) for name in _plain(figures)}
    phrases = {"better": "is better than", "BEATEN": "is BEATEN by", "MATCHED": "is MATCHED by"}
    phrases["UNDECIDED"] = "is compared on too few seeds with"
    return [f"{subject}: evolution {phrases[item.word]} {name} ({item})." for name, item in leads.items()]


def compared(
    heading: str, figures: Mapping[str, Figures], *, is_lower_better: bool = False
) -> tuple[Sequence[str], Sequence[Sequence[object]]]:
    """Returns a table of the means of all methods and the leads of evolution, a row per subject.

    Args:
        heading: Heading of the first column.
        figures: Values of each method by subject and seed, with the same methods for each subject.
        is_lower_better: Whether the values are errors.
    """
    names = list(next(iter(figures.values())))
    rows: list[list[object]] = []
    for subject, values in figures.items():
        leads = (lead(values[EVOLUTION], values[name], is_lower_better=is_lower_better) for name in _plain(values))
        rows.append(
            [subject, *(format_interval(values[name]) for name in names), *(f"{item.word} ({item})" for item in leads)]
        )
    return [heading, *names, *(f"evolution against {name}" for name in names if name != EVOLUTION)], rows


def tally(figures: Mapping[str, Figures], *, is_lower_better: bool = False) -> Sequence[str]:
    """Counts for each baseline how often evolution is better."""
    sentences: list[str] = []
    for name in _plain(next(iter(figures.values()))):
        leads = [lead(item[EVOLUTION], item[name], is_lower_better=is_lower_better) for item in figures.values()]
        words = [item.word for item in leads]
        undecided = f", UNDECIDED (too few seeds) on {words.count('UNDECIDED')}" if "UNDECIDED" in words else ""
        sentences.append(
            f"Evolution against {name}, {leads[0].num_seeds} seeds: better on {words.count('better')}, MATCHED on "
            f"{words.count('MATCHED')} (the interval of the paired difference contains 0), BEATEN on "
            f"{words.count('BEATEN')}{undecided} of {len(words)} figures."
        )
    return sentences


def _plain(figures: Figures) -> Sequence[str]:
    return [name for name in figures if name != EVOLUTION]

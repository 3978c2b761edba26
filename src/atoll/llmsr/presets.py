"""Whose formulas choose parents and found islands anew: FunSearch's, LLM-SR's, the seed's, or ours.

| preset    | a score is the | clusters are drawn by            | of one, by length       | founders        | resets   |
|-----------|----------------|----------------------------------|-------------------------|-----------------|----------|
| funsearch | last input's   | softmax(score / T), put back     | softmax(-len / longest) | of a kept one   | 4 h      |
| llmsr     | mean           | softmax(score / T), put back     | softmax(-len / longest) | of a kept one   | 4 h      |
| seed      | mean           | softmax(score / T), not put back | softmax(-len / range)   | the best of all | 30 min   |
| default   | mean           | rank, not put back               | the shortest            | of a kept one   | by count |

T = 0.1 (1 - (n mod 30,000) / 30,000), n the functions that the island ever registered. The default mends what the
others suffer from: at T = 0.1 a score of -MSE draws parents almost evenly and a score that counts draws greedily; noise
of 1e-6 ranks good islands at random once their errors are below it; a reset by the clock can't be repeated; and where a
docstring is most of the text, the softmax hardly tells lengths apart.
"""

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from random import Random
from statistics import fmean

from atoll import cluster, errors, function
from atoll.llmsr.config import Options

type Reduce = Callable[[Sequence[float]], float]
type MakeChooser = Callable[[Random, float], cluster.Chooser]
type MakeCluster = Callable[[Random, cluster.Announce], cluster.Kept]

TEMPERATURE = 0.1

FUNSEARCH_RESET_SECONDS = 4 * 60 * 60
SEED_RESET_SECONDS = 30 * 60
FUNSEARCH_NOISE = 1e-6
RESET_EVALUATIONS_PER_ISLAND = 50


def last(scores: Sequence[float]) -> float:
    """Returns the score of the last input."""
    return scores[-1]


class Shortest(cluster.DefaultCluster):
    """Keeps all, so that a run which chose otherwise can go on; offers the shortest, the earlier one of equals."""

    _offered: function.Function | None = None

    def add_fn(self, fn: function.Function) -> None:
        if self._offered is None or len(str(fn.skeleton())) < len(str(self._offered.skeleton())):
            self._offered = fn
        super().add_fn(fn)

    def select_fn(self) -> function.Function:
        return self._selected(self._offered or self._some()[0])


@dataclass(eq=False)
class RandomTurns(cluster.RoundRobin):
    """Each step belongs to an island drawn uniformly, as in FunSearch."""

    _: KW_ONLY
    seed: int = 0

    def island(self, step: int) -> int:
        return Random(f"{self.seed}/{step}/island").randrange(self.num_islands)


@dataclass(frozen=True, slots=True)
class Preset:
    """One way to evolve.

    Attributes:
        reduce: Makes a score of the scores per input.
        is_partial: A function counts if at least one input has a score.
        make_chooser: Draws clusters, the more evenly the higher the temperature.
        make_cluster: Holds functions of one signature and offers one of them.
        resets: What happens to the worse half of the islands.
        reset_seconds: Between resets, where the configuration says nothing.
        turns: Whose turn it is.
    """

    reduce: Reduce
    is_partial: bool
    make_chooser: MakeChooser
    make_cluster: MakeCluster = cluster.DefaultCluster
    resets: cluster.Resets = field(default_factory=cluster.reset_worst_half)
    reset_seconds: float | None = None
    turns: type[cluster.RoundRobin] = cluster.RoundRobin

    def make_pool(self, num_selected_clusters: int, temperature: float = TEMPERATURE) -> cluster.MakePool:
        """Returns what makes an island's pool: clusters by signature."""
        return lambda island, rng, announce: cluster.Niches(
            cluster.by_signature,
            lambda key: self.make_cluster(rng, announce),
            self.make_chooser(rng, temperature),
            num_parents=num_selected_clusters,
        )

    def schedule(self, options: Options, seed: int) -> cluster.RoundRobin:
        """Returns whose turn it is and when islands are reset; without a clock unless a period is asked for."""
        seconds, count = options.reset_period, options.reset_evaluations
        if count is None and seconds is None:
            seconds = self.reset_seconds
        if count is None and seconds is None:
            count = RESET_EVALUATIONS_PER_ISLAND * options.num_islands
        turns = self.turns(options.num_islands, reset_every=count, reset_seconds=seconds, resets=self.resets)
        if isinstance(turns, RandomTurns):
            turns.seed = seed
        return turns


def _put_back(rng: Random, temperature: float) -> cluster.Chooser:
    return cluster.SoftmaxChooser(rng, temperature)


def _kept_apart(rng: Random, temperature: float) -> cluster.Chooser:
    return cluster.SoftmaxChooser(rng, temperature, replace=False)


_funsearch_resets = cluster.reset_worst_half(noise=FUNSEARCH_NOISE, founder="kept")

PRESETS = {
    "default": Preset(fmean, False, cluster.RankChooser, Shortest),
    "funsearch": Preset(
        last, True, _put_back, resets=_funsearch_resets, reset_seconds=FUNSEARCH_RESET_SECONDS, turns=RandomTurns
    ),
    "llmsr": Preset(
        fmean, True, _put_back, resets=_funsearch_resets, reset_seconds=FUNSEARCH_RESET_SECONDS, turns=RandomTurns
    ),
    "seed": Preset(
        fmean,
        False,
        _kept_apart,
        partial(cluster.DefaultCluster, by_range=True),
        resets=cluster.reset_worst_half(founder="best"),
        reset_seconds=SEED_RESET_SECONDS,
    ),
}


def preset(name: str) -> Preset:
    """Returns a preset by its name.

    Raises:
        SetupError: There is none of that name.
    """
    if name not in PRESETS:
        raise errors.SetupError(f"There is no preset {name!r}: choose one of {', '.join(PRESETS)}.")
    return PRESETS[name]

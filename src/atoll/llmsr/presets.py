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
type MakeSelector = Callable[[Random, float], cluster.Selector]
type MakeCluster = Callable[[Random, cluster.ClusterProfilers], cluster.ListableCluster]

TEMPERATURE = 0.1

FUNSEARCH_RESET_SECONDS = 4 * 60 * 60
SEED_RESET_SECONDS = 30 * 60
FUNSEARCH_NOISE = 1e-6
RESET_EVALUATIONS_PER_ISLAND = 50


def get_last_score(scores: Sequence[float]) -> float:
    """Returns the score of the last input."""
    return scores[-1]


class ShortestFirstCluster(cluster.DefaultCluster):
    """Keeps all, so that a run which chose otherwise can go on; offers the shortest, the earlier one of equals."""

    _shortest_candidate: function.Function | None = None

    def add_fn(self, fn: function.Function) -> None:
        if self._shortest_candidate is None or len(str(fn.skeleton())) < len(str(self._shortest_candidate.skeleton())):
            self._shortest_candidate = fn
        super().add_fn(fn)

    def select_fn(self) -> function.Function:
        return self._emit_selected(self._shortest_candidate or self._require_members()[0])


@dataclass(eq=False)
class RandomIslandSchedule(cluster.RoundRobin):
    """Each step belongs to an island drawn uniformly, as in FunSearch."""

    _: KW_ONLY
    seed: int = 0

    def choose_island(self, iteration: int) -> int:
        return Random(f"{self.seed}/{iteration}/island").randrange(self.num_islands)


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
    allow_partial: bool
    make_selector: MakeSelector
    make_cluster: MakeCluster = cluster.DefaultCluster
    reset_rule: cluster.ResetRule = field(default_factory=cluster.reset_worst_half)
    reset_seconds: float | None = None
    schedule_type: Callable[..., cluster.RoundRobin] = cluster.RoundRobin

    def make_population(self, num_selected_clusters: int, temperature: float = TEMPERATURE) -> cluster.MakePopulation:
        """Returns what makes an island's pool: clusters by signature."""
        return lambda island, rng, announce: cluster.NichedPopulation(
            cluster.by_signature,
            lambda key: self.make_cluster(rng, announce),
            self.make_selector(rng, temperature),
            num_parents=num_selected_clusters,
        )

    def make_schedule(self, options: Options, seed: int) -> cluster.RoundRobin:
        """Returns whose turn it is and when islands are reset; without a clock unless a period is asked for."""
        seconds, count = options.reset_period, options.reset_evaluations
        if count is None and seconds is None:
            seconds = self.reset_seconds
        if count is None and seconds is None:
            count = RESET_EVALUATIONS_PER_ISLAND * options.num_islands
        island_schedule = self.schedule_type(
            options.num_islands, reset_every=count, reset_seconds=seconds, reset_rule=self.reset_rule
        )
        if isinstance(island_schedule, RandomIslandSchedule):
            island_schedule.seed = seed
        return island_schedule


def _make_replacing_selector(rng: Random, temperature: float) -> cluster.Selector:
    return cluster.SoftmaxSelector(rng, temperature)


def _make_distinct_selector(rng: Random, temperature: float) -> cluster.Selector:
    return cluster.SoftmaxSelector(rng, temperature, replace=False)


_funsearch_reset_rule = cluster.reset_worst_half(noise=FUNSEARCH_NOISE, founder="survivor")

PRESETS = {
    "default": Preset(fmean, False, cluster.RankSelector, ShortestFirstCluster),
    "funsearch": Preset(
        get_last_score,
        True,
        _make_replacing_selector,
        reset_rule=_funsearch_reset_rule,
        reset_seconds=FUNSEARCH_RESET_SECONDS,
        schedule_type=RandomIslandSchedule,
    ),
    "llmsr": Preset(
        fmean,
        True,
        _make_replacing_selector,
        reset_rule=_funsearch_reset_rule,
        reset_seconds=FUNSEARCH_RESET_SECONDS,
        schedule_type=RandomIslandSchedule,
    ),
    "seed": Preset(
        fmean,
        False,
        _make_distinct_selector,
        partial(cluster.DefaultCluster, by_range=True),
        reset_rule=cluster.reset_worst_half(founder="best"),
        reset_seconds=SEED_RESET_SECONDS,
    ),
}


def get_preset(name: str) -> Preset:
    """Returns a preset by its name.

    Raises:
        SetupError: There is none of that name.
    """
    if name not in PRESETS:
        raise errors.SetupError(f"There is no preset {name!r}: choose one of {', '.join(PRESETS)}.")
    return PRESETS[name]

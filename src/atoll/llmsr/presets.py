"""Presets for parent selection and island resets: FunSearch, LLM-SR, the seed, or the default.

| preset    | score      | selection of clusters                | function in a cluster   | new island from | resets   |
|-----------|------------|--------------------------------------|-------------------------|-----------------|----------|
| funsearch | last input | softmax(score / T), with replacement | softmax(-len / longest) | a survivor      | 4 h      |
| llmsr     | mean       | softmax(score / T), with replacement | softmax(-len / longest) | a survivor      | 4 h      |
| seed      | mean       | softmax(score / T), no replacement   | softmax(-len / range)   | the best of all | 30 min   |
| default   | mean       | rank, no replacement                 | the shortest            | a survivor      | by count |

T = 0.1 (1 - (n mod 30,000) / 30,000), where n counts all functions ever added to the island. The default preset avoids
four problems of the others. At T = 0.1, a score of -MSE gives almost uniform selection and a counting score gives
greedy selection. Noise of 1e-6 ranks good islands at random if their errors are smaller. Time-based resets are not
repeatable. If the docstring is most of the text, the softmax of lengths is almost uniform. With an LLM, the default
preset also states scores in its prompts, and `engine_weights` may add a tuner; the publications have neither.
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
    """Selects the shortest function, the first of equals. It keeps all, so that runs of other presets can resume."""

    _shortest_candidate: function.Function | None = None

    def add_fn(self, fn: function.Function) -> None:
        if self._shortest_candidate is None or len(str(fn.skeleton())) < len(str(self._shortest_candidate.skeleton())):
            self._shortest_candidate = fn
        super().add_fn(fn)

    def select_fn(self) -> function.Function:
        return self._emit_selected(self._shortest_candidate or self._require_members()[0])


@dataclass(eq=False)
class RandomIslandSchedule(cluster.RoundRobin):
    """Draws the island of each iteration uniformly, as in FunSearch."""

    _: KW_ONLY
    seed: int = 0

    def choose_island(self, iteration: int) -> int:
        return Random(f"{self.seed}/{iteration}/island").randrange(self.num_islands)


@dataclass(frozen=True, slots=True)
class Preset:
    """Rules for scores, selection and resets.

    Attributes:
        reduce: Computes the score from the scores of all inputs.
        allow_partial: Whether a function counts if only some inputs have a score.
        make_selector: Makes the selector of clusters; a higher temperature selects more evenly.
        make_cluster: Makes a cluster, which selects one of its functions.
        reset_rule: Rule for resetting the worse half of the islands.
        reset_seconds: Default time between resets.
        schedule_type: Chooses the island of each iteration.
        has_feedback: Whether prompts state scores, and `engine_weights` may add a tuner of new bests to an LLM.
    """

    reduce: Reduce
    allow_partial: bool
    make_selector: MakeSelector
    make_cluster: MakeCluster = cluster.DefaultCluster
    reset_rule: cluster.ResetRule = field(default_factory=cluster.reset_worst_half)
    reset_seconds: float | None = None
    schedule_type: Callable[..., cluster.RoundRobin] = cluster.RoundRobin
    has_feedback: bool = False

    def make_population(self, num_selected_clusters: int, temperature: float = TEMPERATURE) -> cluster.MakePopulation:
        """Returns a factory for the population of an island, with clusters by signature."""
        return lambda island, rng, announce: cluster.NichedPopulation(
            cluster.by_signature,
            lambda key: self.make_cluster(rng, announce),
            self.make_selector(rng, temperature),
            num_parents=num_selected_clusters,
        )

    def make_schedule(self, options: Options, seed: int) -> cluster.RoundRobin:
        """Returns the schedule of islands and resets, time-based only if a period is set."""
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
    "default": Preset(fmean, False, cluster.RankSelector, ShortestFirstCluster, has_feedback=True),
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
    """Returns a preset by name.

    Raises:
        SetupError: The preset does not exist.
    """
    if name not in PRESETS:
        raise errors.SetupError(f"Preset {name!r} not found. Use one of {', '.join(PRESETS)}.")
    return PRESETS[name]

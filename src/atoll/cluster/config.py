"""What an evolver is made of: the seed's fields first, then the plugs, all with defaults that run."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from atoll import archipelago, control, errors, evaluation, function, profiler
from atoll.cluster.clusters import ClusterEvent, ClusterProfilers, DefaultCluster
from atoll.cluster.populations import NichedPopulation, by_signature
from atoll.cluster.selectors import SoftmaxSelector
from atoll.gate import Gate, has_score
from atoll.journal import Journal, NullJournal

type MakePopulation = Callable[[int, Random, ClusterProfilers], archipelago.Population]


def by_score(island: int, result: evaluation.Evaluation) -> float:
    """Ranks by the score, on every island alike."""
    return -float("inf") if result.score is None else result.score


def funsearch_population(num_selected_clusters: int) -> MakePopulation:
    """FunSearch's clusters by score signature, drawn by a cooling softmax."""
    return lambda island, rng, profilers: NichedPopulation(
        by_signature,
        lambda key: DefaultCluster(rng, profilers),
        SoftmaxSelector(rng),
        num_parents=num_selected_clusters,
    )


@dataclass(frozen=True, slots=True)
class IslandConfig:
    """What the islands of a ring have in common.

    Attributes:
        num_selected_clusters: Parents of a step, one from each selected cluster; for the default pool.
        initial_fn: Founds every island.
        mutation_engine: An engine of one child, or a proposer of several.
        screen: Asked before judging, if there is one: what it rejects costs no evaluation; a hold counts as accept.
        gate: Asked after judging: what it accepts enters the pool. What has no score never does.
        rank: How an island (by index) ranks an evaluation; a migrant is ranked by its host.
        make_pool: Makes a pool for (island, the ring's random generator, the clusters' profilers).
    """

    num_islands: int
    num_selected_clusters: int
    initial_fn: function.Function
    mutation_engine: function.MutationEngine | function.Proposer
    island_profiler_fn: profiler.ProfilerFn[archipelago.IslandEvent] = profiler.default_fn
    cluster_profiler_fn: profiler.ProfilerFn[ClusterEvent] = profiler.default_fn
    prefilter: Gate | None = None
    gate: Gate = has_score
    fitness: Callable[[int, evaluation.Evaluation], float] = by_score
    make_population: MakePopulation | None = None

    def compute_fitness(self, island: int, result: evaluation.Evaluation) -> float | errors.CaughtException:
        """Returns the rank of an evaluation on an island, or why it has none."""
        fitness = errors.capture(lambda: float(self.fitness(island, result)))
        if result.score is None or (isinstance(fitness, float) and not math.isfinite(fitness)):
            return errors.CaughtException(ValueError(f"a score of {result.score} ranked as {fitness}"))
        return fitness


@dataclass(frozen=True, slots=True)
class EvolverConfig:
    """How a ring of islands runs.

    Attributes:
        island_config: What the islands are made of.
        num_parallel: Worker threads.
        reset_period: Seconds between resets, for the default schedule; None: never.
        schedule: Whose turn it is and what happens between islands.
        journal: Where records go; a journal that holds a run already continues it.
        budget: What the run may use.
        stop_rules: Each may end the run with a reason.
        inbox: Where commands come from while it runs.
        learner: What advises each step and learns from it.
        seed: All dice come from it and the number of the step.
        ordered: Applies steps in their order, so that the result depends on seed and window, not on timing.
        window: Steps in flight; as many as workers by default, 32 when ordered.
        make_skeleton: Makes a skeleton from a stored content; by default as the initial one was made.
        clock: Seconds, for budgets and resets by time.
    """

    island_config: IslandConfig
    num_parallel: int = 2
    reset_period: float | None = 30 * 60
    schedule: archipelago.Schedule | None = None
    journal: Journal = field(default_factory=NullJournal)
    budget: control.Budget = control.UNLIMITED
    stop_rules: Sequence[control.StopRule] = ()
    inbox: control.Inbox | None = None
    learner: function.Learner | None = None
    seed: int = 0
    ordered: bool = False
    window: int | None = None
    make_skeleton: Callable[[str], function.Skeleton[..., Any]] | None = None
    clock: Callable[[], float] = time.monotonic

    def check(self, schedule: archipelago.Schedule) -> None:
        """Refuses what cannot run.

        Raises:
            SetupError: A number is out of range, or an ordered run would depend on the clock.
        """
        counts = {"num_islands": self.island_config.num_islands, "num_parallel": self.num_parallel}
        for name, value in {**counts, "window": self.window}.items():
            if value is not None and value < 1:
                raise errors.SetupError(f"{name} is {value}; it must be at least 1.")
        uses_clock = schedule.uses_clock or self.budget.seconds is not None or self.budget.usd is not None
        if self.ordered and uses_clock:
            raise errors.SetupError(
                "An ordered run cannot depend on seconds or dollars: count resets in steps (reset_period=None) "
                "and the budget in iterations, evaluations, calls or tokens."
            )

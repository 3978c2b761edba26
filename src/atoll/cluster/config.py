"""Configuration of an evolver and its islands."""

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
    """Uses the score as the fitness on every island."""
    return -float("inf") if result.score is None else result.score


def funsearch_population(num_selected_clusters: int) -> MakePopulation:
    """Returns FunSearch's population: clusters by score signature, drawn by a cooling softmax."""
    return lambda island, rng, profilers: NichedPopulation(
        by_signature,
        lambda key: DefaultCluster(rng, profilers),
        SoftmaxSelector(rng),
        num_parents=num_selected_clusters,
    )


@dataclass(frozen=True, slots=True)
class IslandConfig:
    """Configuration shared by all islands.

    Attributes:
        num_selected_clusters: Parents of an iteration, one from each selected cluster; for the default population.
        initial_fn: First member of every island.
        mutation_engine: A mutation engine, or a proposer of several children.
        prefilter: Gate before evaluation: rejected candidates are not evaluated; a hold counts as accept.
        gate: Gate after evaluation: accepted candidates join the population. Candidates without a score never do.
        fitness: Fitness of an evaluation on an island (by index); migrants get the fitness of their new island.
        make_population: Makes a population for (island, the shared random generator, the clusters' profilers).
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
        """Returns the fitness of an evaluation on an island, or the error."""
        fitness = errors.capture(lambda: float(self.fitness(island, result)))
        if result.score is None or (isinstance(fitness, float) and not math.isfinite(fitness)):
            return errors.CaughtException(ValueError(f"a score of {result.score} ranked as {fitness}"))
        return fitness


@dataclass(frozen=True, slots=True)
class EvolverConfig:
    """Configuration of an evolver.

    Attributes:
        island_config: Configuration of the islands.
        num_parallel: Worker threads.
        reset_period: Seconds between resets, for the default schedule; None: never.
        schedule: Order of the islands, migrations and resets.
        journal: Storage of records; a journal with records continues that run.
        budget: Limits of the run.
        stop_rules: Each may end the run with a reason.
        inbox: Commands to the running run.
        learner: Advises each iteration and learns from it.
        seed: With the iteration number, the source of all random numbers.
        ordered: Apply iterations in order, so that the result depends on seed and window, not on timing.
        window: Iterations in flight; default: the number of workers, 32 if ordered.
        make_skeleton: Makes a skeleton from stored content; default: like the initial skeleton.
        clock: Seconds, for budgets and time-based resets.
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
        """Checks the values.

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
                "An ordered run cannot depend on seconds or dollars: count resets in iterations (reset_period=None) "
                "and the budget in iterations, evaluations, calls or tokens."
            )

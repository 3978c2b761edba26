"""Two problems for mutators without an LLM: cap sets, and the law of kinetic energy."""

import functools
import itertools
import math
from collections.abc import Sequence
from random import Random
from typing import Any, NamedTuple

from atoll import archipelago, cluster, control, errors, function, gate


class Problem(NamedTuple):
    """Initial source and evaluator.

    Attributes:
        goal: The best possible score.
    """

    source: str
    inputs: Sequence[Any]
    evaluator: function.Evaluator[..., Any, Any]
    goal: float


@functools.cache
def vectors(n: int) -> Sequence[tuple[int, ...]]:
    return list(itertools.product((0, 1, 2), repeat=n))


@functools.cache
def thirds(n: int) -> Sequence[Sequence[int]]:
    """Returns for each pair of vectors the third one on their line."""
    indices = {vector: index for index, vector in enumerate(vectors(n))}
    return [
        [indices[tuple((-a - b) % 3 for a, b in zip(first, second, strict=True))] for second in vectors(n)]
        for first in vectors(n)
    ]


def cap_set_size(priority: function.Skeleton[..., float], n: int) -> float:
    """Adds vectors by falling priority if they are on no line with two others. A constant priority gives 2**n."""
    points, lines = vectors(n), thirds(n)
    order = sorted(range(len(points)), key=lambda index: -float(priority(points[index], n)))
    blocked, chosen = bytearray(len(points)), list[int]()
    for index in order:
        if not blocked[index]:
            for other in chosen:
                blocked[lines[index][other]] = 1
            blocked[index] = 1
            chosen.append(index)
    return float(len(chosen))


def _rows(*moving: tuple[float, float]) -> Sequence[tuple[float, float, float]]:
    return [(mass, speed, 0.5 * mass * speed**2) for mass, speed in moving]


# Fractions, so that rounding gives no law by chance. A law must also hold for the other energies.
ENERGIES = _rows((1.5, 2.7), (2.25, 5.2), (70.4, 1.6), (0.35, 31.5), (80.9, 8.3), (1_200.5, 13.8), (6.4, 0.45))
OTHER_ENERGIES = _rows((0.11, 0.7), (3.3, 44.1), (5_000.2, 0.35), (12.6, 12.6))


def closeness(energy: function.Skeleton[..., float], row: tuple[float, float, float]) -> float:
    """Returns the negative error in powers of two: 0 for the right answer, at least -10."""
    mass, speed, right = row
    answer = energy(mass, speed)
    return max(-10.0, 0.0 - round(abs(math.log2(answer / right)), 6)) if answer > 0 else -10.0


CAP_SET_4 = Problem("def priority(el: tuple, n: int) -> float:\n    return 0.0\n", (4,), cap_set_size, 20.0)
CAP_SET_5 = CAP_SET_4._replace(inputs=(5,), goal=45.0)
ENERGY = Problem("def energy(mass, speed):\n    return mass * speed\n", ENERGIES, closeness, 0.0)

# The same with numbers, for a mutator that changes only numbers.
WEIGHTED_CAP_SET = CAP_SET_4._replace(
    source="def priority(el: tuple, n: int) -> float:\n    return 1.0 * el[0] + 1.0 * el[1] + 1.0 * el[2] + el[3]\n"
)
SCALED_ENERGY = ENERGY._replace(source="def energy(mass, speed):\n    return 1.0 * mass * speed + 0.0\n")


def _make_population(island: int, rng: Random, announce: cluster.ClusterProfilers) -> archipelago.Population:
    make_cluster, selector = lambda key: cluster.DefaultCluster(rng, announce), cluster.RankSelector(rng)
    return cluster.NichedPopulation(cluster.by_signature, make_cluster, selector, num_parents=2)


def evolve(problem: Problem, engine: function.Proposer, *, evaluations: int, seed: int) -> cluster.Evolver:
    """Runs four islands until the goal or the budget is reached."""
    props = function.DefaultFunctionProps(function.PyAstSkeleton(problem.source), problem.inputs, problem.evaluator)
    initial = function.DefaultFunction(props)
    islands = cluster.IslandConfig(
        4, 2, initial, engine, prefilter=gate.reject_duplicates, make_population=_make_population
    )
    config = cluster.EvolverConfig(
        islands,
        num_parallel=1,
        schedule=cluster.RoundRobin(4, migrate_every=200, reset_every=1_600),
        budget=control.Budget(evaluations=evaluations, iterations=3 * evaluations),
        stop_rules=[control.make_target_rule(problem.goal)],
        seed=seed,
        ordered=True,
    )
    evolver = cluster.Evolver(config)
    evolver.run()
    return evolver


def is_law(evolver: cluster.Evolver) -> bool:
    """Returns whether the best formula holds for other energies."""
    energy = evolver.best_fn().skeleton()
    answers = errors.capture(lambda: [energy(mass, speed) for mass, speed, _ in OTHER_ENERGIES])
    if isinstance(answers, errors.CaughtException):
        return False
    return all(math.isclose(answer, row[2], rel_tol=1e-6) for answer, row in zip(answers, OTHER_ENERGIES, strict=True))


def best_score(evolver: cluster.Evolver) -> float:
    return function.get_fitness(evolver.best_fn())

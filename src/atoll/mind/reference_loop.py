"""Reference loop of Mind Evolution: small functions with the names of its design note.

    graph = initialize_worldline_graph()
    islands = initialize_islands(manager, num_islands)
    for generation in range(max_generations):
        for island in islands:
            parents = tournament_selection(island.population, k, rng)
            plan = mutation(recombination(parents, manager), manager)
            child = rcc_refinement(island.author, island.critic, run_worldline_plan(plan, manager), manager)
            island.update_population(child, evaluate_worldline(child, island.weights))
        migrate(islands); reset_lowest_islands(islands)
    best = select_top_worldlines(islands)

A run from the command line does the same (`build.py`), with a store, budgets and resume.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean

from atoll.mind import fitness, population
from atoll.mind.actions import WorldlineFork
from atoll.mind.worldline import Plan, Worldline, compute_distance, format_action, format_trace
from atoll.mind.worldline_manager import WorldlineManager, get_moves

type Critic = Callable[[Worldline], Sequence[str]]
type Author = Callable[[Worldline, Sequence[str]], Plan]

NUM_TURNS = 4  # of a conversation: 4 to 6


@dataclass(eq=False)
class Island:
    """Population with its own weights, author and critic.

    Attributes:
        max_size: Maximal number of worldlines; the worst are removed.
    """

    index: int
    weights: fitness.Weights
    author: Author
    critic: Critic
    population: list[Worldline] = field(default_factory=list)
    max_size: int = 100

    def update_population(self, worldline: Worldline, score: float | None = None) -> None:
        """Adds a worldline with a new trace, ordered by this island's weights."""
        if worldline.metrics and get_moves(worldline) not in [get_moves(member) for member in self.population]:
            self.population = sorted([*self.population, worldline], key=self.get_fitness, reverse=True)[: self.max_size]

    def get_fitness(self, worldline: Worldline) -> float:
        return self.weights.compute_fitness(worldline.metrics)


def initialize_islands(manager: WorldlineManager, num_islands: int = 4, *, num_initial: int = 2) -> list[Island]:
    """Returns islands with different strategies and a few initial worldlines each."""
    islands = list[Island]()
    for index in range(num_islands):
        weights = fitness.STRATEGIES[fitness.ISLAND_STRATEGIES[index % len(fitness.ISLAND_STRATEGIES)]]
        island = Island(index, weights, make_author(manager), make_critic(manager))
        for _ in range(num_initial):
            island.update_population(manager.evaluate(manager.run(manager.investigate())))
        islands.append(island)
    return islands


def make_critic(manager: WorldlineManager) -> Critic:
    """Returns a critic without an LLM. It lists the errors that the problem finds."""
    return lambda worldline: [plan_error.message for plan_error in manager.evaluate_plan(worldline).errors]


def make_author(manager: WorldlineManager) -> Author:
    """Returns an author without an LLM. It mutates the plan at an error."""
    return lambda worldline, critique: manager.mutate(
        Plan(get_moves(worldline), (worldline.worldline_id,), worldline.memory_refs)
    )


def tournament_selection(
    worldlines: Sequence[Worldline],
    k: int,
    rng: Random,
    *,
    weights: fitness.Weights = fitness.BALANCED,
    temperature: float = 0.03,
) -> list[Worldline]:
    """Selects k different worldlines by the softmax of their fitness, worst first."""
    fitness_values = [weights.compute_fitness(worldline.metrics) for worldline in worldlines]
    return [worldlines[index] for index in population.select_by_tournament(fitness_values, k, rng, temperature)]


def recombination(parents: Sequence[Worldline], manager: WorldlineManager) -> Plan:
    """Returns a plan from the parents: a new one without parents, a copy of one, a recombination of the best two."""
    if not parents:
        return manager.investigate()
    if len(parents) == 1:
        return Plan(get_moves(parents[0]), (parents[0].worldline_id,), parents[0].memory_refs)
    return manager.recombine(parents[-1], parents[-2])


def mutation(plan: Plan, manager: WorldlineManager) -> Plan:
    """Returns a plan with one changed decision."""
    return manager.mutate(plan)


def run_worldline_plan(plan: Plan, manager: WorldlineManager) -> Worldline:
    """Forks a worldline and runs the plan in its own sandbox."""
    return manager.run(plan)


def rcc_refinement(
    author: Author, critic: Critic, worldline: Worldline, manager: WorldlineManager, *, num_turns: int = NUM_TURNS
) -> Worldline:
    """Refines a worldline by a conversation of author and critic, and returns the best result.

    The critic's points become `WorldlineFork`s in the trace. The author's answer adds a link and a dialogue entry.
    """
    best = manager.evaluate(worldline)
    for _ in range(num_turns // 2):
        points = list(critic(best))
        if not points:
            break
        child = manager.run(author(best, points))
        forks = tuple(WorldlineFork(point) for point in points)
        dialogue = (
            f"critic: {'; '.join(points)}",
            f"author: {format_action(get_moves(child)[0]) if get_moves(child) else 'nothing'}",
        )
        child = replace(
            child,
            decision_trace=(*forks, *child.decision_trace),
            memory_links={child.worldline_id: (best.worldline_id,)},
            agent_prompts=(*best.agent_prompts, *dialogue),
        )
        child = manager.evaluate(child)
        if fitness.BALANCED.compute_fitness(child.metrics) >= fitness.BALANCED.compute_fitness(best.metrics):
            best = child
    return best


def evaluate_worldline(worldline: Worldline, weights: fitness.Weights = fitness.BALANCED) -> float:
    """Returns the fitness of a worldline from its raw metrics."""
    return weights.compute_fitness(worldline.metrics)


def migrate(islands: Sequence[Island], count: int = 5) -> None:
    """Copies the best of every island to the next in the ring, which orders them by its own weights."""
    migrants = [island.population[:count] for island in islands]
    for island, best in zip(islands, migrants, strict=True):
        host = islands[(island.index + 1) % len(islands)]
        for worldline in best:
            host.update_population(worldline)


def reset_lowest_islands(
    islands: Sequence[Island], num_reset: int = 2, num_top: int = 5, num_candidate: int = 15
) -> None:
    """Empties the islands with the lowest mean common fitness and refills them with diverse elites of all islands."""
    candidates = select_top_worldlines(islands, num_candidate)
    elites = candidates[:1]
    while 0 < len(elites) < min(num_top, len(candidates)):
        remaining = [worldline for worldline in candidates if worldline not in elites]
        elites.append(
            max(remaining, key=lambda worldline: min(_compute_distance(worldline, elite) for elite in elites))
        )
    ordered = sorted(islands, key=_compute_mean_fitness)
    for island in ordered[: min(num_reset, len(islands) - 1)] if elites else ():
        island.population = []
        for line in elites:
            island.update_population(line)


def select_top_worldlines(islands: Sequence[Island], count: int = 1) -> list[Worldline]:
    """Returns the best distinct worldlines of all islands by the common weights."""
    distinct = {get_moves(worldline): worldline for island in islands for worldline in island.population}
    return sorted(distinct.values(), key=lambda worldline: evaluate_worldline(worldline), reverse=True)[:count]


def _compute_mean_fitness(island: Island) -> float:
    return (
        fmean(evaluate_worldline(worldline) for worldline in island.population) if island.population else -float("inf")
    )


def _compute_distance(first: Worldline, second: Worldline) -> float:
    return compute_distance(format_trace(get_moves(first)), format_trace(get_moves(second)))

"""The loop of Mind Evolution as small functions over worldlines, in the names of the design note that it comes from.

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

A run from the command line does the same on the kernel (`build.py`), where nothing is lost and nothing is paid twice.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from statistics import fmean

from atoll.mind import fitness, kinds, pool
from atoll.mind.actions import WorldlineFork
from atoll.mind.worldline import Plan, Worldline
from atoll.mind.worldlines import WorldlineManager, moves

type Critic = Callable[[Worldline], Sequence[str]]
type Author = Callable[[Worldline, Sequence[str]], Plan]

TURNS = 4  # of a conversation: 4 to 6


@dataclass(eq=False)
class Island:
    """A population with its own weights, author and critic.

    Attributes:
        most: How many worldlines it keeps; the worst leave.
    """

    index: int
    weights: fitness.Weights
    author: Author
    critic: Critic
    population: list[Worldline] = field(default_factory=list)
    most: int = 100

    def update_population(self, line: Worldline, score: float | None = None) -> None:
        """Takes a worldline in, no trace twice, ranked by this island's own weights."""
        if line.metrics and moves(line) not in [moves(each) for each in self.population]:
            self.population = sorted([*self.population, line], key=self.rank, reverse=True)[: self.most]

    def rank(self, line: Worldline) -> float:
        return self.weights.fitness(line.metrics)


def initialize_islands(manager: WorldlineManager, num_islands: int = 4, *, num_each: int = 2) -> list[Island]:
    """Returns islands with strategies of their own, each with some worldlines that were investigated from the base."""
    islands = list[Island]()
    for index in range(num_islands):
        weights = fitness.STRATEGIES[fitness.ISLANDS[index % len(fitness.ISLANDS)]]
        island = Island(index, weights, author_of(manager), critic_of(manager))
        for _ in range(num_each):
            island.update_population(manager.measure(manager.run(manager.investigate())))
        islands.append(island)
    return islands


def critic_of(manager: WorldlineManager) -> Critic:
    """Returns a critic that needs no model: it says what the problem finds fault with."""
    return lambda line: [each.text for each in manager.verdict(line).faults]


def author_of(manager: WorldlineManager) -> Author:
    """Returns an author that needs no model: it changes the plan where something is wrong."""
    return lambda line, points: manager.mutate(Plan(moves(line), (line.worldline_id,), line.memory_refs))


def tournament_selection(
    population: Sequence[Worldline],
    k: int,
    rng: Random,
    *,
    weights: fitness.Weights = fitness.BALANCED,
    temperature: float = 0.03,
) -> list[Worldline]:
    """Draws k different worldlines by the softmax of their fitness over the whole population, worst first."""
    ranks = [weights.fitness(line.metrics) for line in population]
    return [population[place] for place in pool.tournament(ranks, k, rng, temperature)]


def recombination(parents: Sequence[Worldline], manager: WorldlineManager) -> Plan:
    """Returns a fork plan of the parents' decision traces: none begin anew, one is taken over, the best two mate."""
    if not parents:
        return manager.investigate()
    if len(parents) == 1:
        return Plan(moves(parents[0]), (parents[0].worldline_id,), parents[0].memory_refs)
    return manager.recombine(parents[-1], parents[-2])


def mutation(plan: Plan, manager: WorldlineManager) -> Plan:
    """Returns a plan with one decision changed."""
    return manager.mutate(plan)


def run_worldline_plan(plan: Plan, manager: WorldlineManager) -> Worldline:
    """Forks a worldline and does what the plan says, in its own sandbox."""
    return manager.run(plan)


def rcc_refinement(
    author: Author, critic: Critic, line: Worldline, manager: WorldlineManager, *, turns: int = TURNS
) -> Worldline:
    """Lets author and critic talk about a worldline and returns the best that came of it.

    The critic's points become `WorldlineFork`s of the trace, the author's answer a link to what it answers and an
    entry of the dialogue.
    """
    best = manager.measure(line)
    for _ in range(turns // 2):
        points = list(critic(best))
        if not points:
            break
        tried = manager.run(author(best, points))
        forks = tuple(WorldlineFork(point) for point in points)
        talk = (
            f"critic: {'; '.join(points)}",
            f"author: {kinds.line_of(moves(tried)[0]) if moves(tried) else 'nothing'}",
        )
        tried = replace(
            tried,
            decision_trace=(*forks, *tried.decision_trace),
            memory_links={tried.worldline_id: (best.worldline_id,)},
            agent_prompts=(*best.agent_prompts, *talk),
        )
        tried = manager.measure(tried)
        if fitness.BALANCED.fitness(tried.metrics) >= fitness.BALANCED.fitness(best.metrics):
            best = tried
    return best


def evaluate_worldline(line: Worldline, weights: fitness.Weights = fitness.BALANCED) -> float:
    """Returns the fitness of a worldline from its raw metrics."""
    return weights.fitness(line.metrics)


def migrate(islands: Sequence[Island], number: int = 5) -> None:
    """Clones the best of every island to the next in the ring, which ranks them by its own weights."""
    leaving = [island.population[:number] for island in islands]
    for island, best in zip(islands, leaving, strict=True):
        host = islands[(island.index + 1) % len(islands)]
        for line in best:
            host.update_population(line)


def reset_lowest_islands(islands: Sequence[Island], number: int = 2, num_top: int = 5, num_candidate: int = 15) -> None:
    """Empties the islands with the lowest mean by the common weights, and founds them with unlike elites of all."""
    candidates = select_top_worldlines(islands, num_candidate)
    elected = candidates[:1]
    while 0 < len(elected) < min(num_top, len(candidates)):
        rest = [line for line in candidates if line not in elected]
        elected.append(max(rest, key=lambda line: min(_apart(line, each) for each in elected)))
    by_mean = sorted(islands, key=_mean)
    for island in by_mean[: min(number, len(islands) - 1)] if elected else ():
        island.population = []
        for line in elected:
            island.update_population(line)


def select_top_worldlines(islands: Sequence[Island], number: int = 1) -> list[Worldline]:
    """Returns the best worldlines of all islands by the common weights, no trace twice."""
    distinct = {moves(line): line for island in islands for line in island.population}
    return sorted(distinct.values(), key=lambda line: evaluate_worldline(line), reverse=True)[:number]


def _mean(island: Island) -> float:
    return fmean(evaluate_worldline(line) for line in island.population) if island.population else -float("inf")


def _apart(one: Worldline, other: Worldline) -> float:
    return kinds.distance(kinds.lines_of(moves(one)), kinds.lines_of(moves(other)))

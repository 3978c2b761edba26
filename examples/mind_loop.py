"""The loop of Mind Evolution, function by function, on one trip and without an LLM: python examples/mind_loop.py."""

from random import Random

from atoll import mind
from atoll.mind.tasks import generate, load

SEED, NUM_GENERATIONS, RESET_INTERVAL = 3, 60, 3


def solve() -> tuple[mind.WorldlineManager, mind.Worldline]:
    """Returns the worldlines of a trip, and the best of them."""
    (row,) = generate.generate_rows("trip", count=1, size=6, seed=SEED)
    manager, rng = mind.WorldlineManager(load.parse_row(row), Random(SEED)), Random(SEED)
    islands = mind.initialize_islands(manager, num_islands=4)
    for generation in range(1, NUM_GENERATIONS + 1):
        for island in islands:
            parents = mind.tournament_selection(island.population, rng.randint(0, 2), rng, weights=island.weights)
            plan = mind.mutation(mind.recombination(parents, manager), manager)
            child = mind.run_worldline_plan(plan, manager)
            child = mind.rcc_refinement(island.author, island.critic, child, manager)
            island.update_population(child, mind.evaluate_worldline(child, island.weights))
        (best,) = mind.select_top_worldlines(islands)
        if manager.evaluate_plan(best).is_solved:
            print(f"Solved in generation {generation}, after {len(manager.graph.nodes)} worldlines.")
            return manager, best
        mind.migrate(islands)
        if generation % RESET_INTERVAL == 0:
            mind.reset_lowest_islands(islands)
    return manager, best


if __name__ == "__main__":
    manager, best = solve()
    print(best.summary)
    print(manager.problem.format_plan([action for action in best.decision_trace if action in manager.problem.moves]))

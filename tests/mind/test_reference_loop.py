"""The reference loop, the worldline graph and reviews."""

from random import Random

import pytest

from atoll import errors, mind
from atoll.mind import fitness, reference_loop, worldline, worldline_manager


@pytest.fixture
def manager(trips):
    return mind.WorldlineManager(trips[0], Random(1))


def test_all_exported_names_can_be_imported():  # A13, A14
    for name in mind.__all__:
        assert getattr(mind, name) is not None
    with pytest.raises(AttributeError):
        mind.nothing  # noqa: B018 - it raises


def test_reference_loop_solves_a_trip(manager):  # A13
    rng, islands = Random(0), mind.initialize_islands(manager, 3)
    for generation in range(60):
        for island in islands:
            parents = mind.tournament_selection(island.population, rng.randint(0, 2), rng, weights=island.weights)
            plan = mind.mutation(mind.recombination(parents, manager), manager)
            child = mind.rcc_refinement(island.author, island.critic, mind.run_worldline_plan(plan, manager), manager)
            island.update_population(child, mind.evaluate_worldline(child, island.weights))
        mind.migrate(islands)
        if (generation + 1) % 3 == 0:
            mind.reset_lowest_islands(islands)
    (best,) = mind.select_top_worldlines(islands)
    assert manager.evaluate_plan(best).is_solved
    assert best.summary.endswith("0 errors, score 0")


def test_islands_have_own_weights_and_start_from_base(manager):  # A8, A9
    islands = mind.initialize_islands(manager, 4)
    assert [island.weights for island in islands] == [fitness.STRATEGIES[name] for name in fitness.ISLAND_STRATEGIES]
    assert all(line.parents == ("W0",) for island in islands for line in island.population)


def test_migrant_gets_fitness_of_new_island(manager):  # A11
    islands = mind.initialize_islands(manager, 2, num_initial=1)
    islands[1].population = []
    mind.migrate(islands)
    (line,) = islands[1].population
    assert islands[1].get_fitness(line) == islands[1].weights.compute_fitness(line.metrics)


def test_refinement_records_critique_and_links(manager):  # A7
    line = manager.run(manager.investigate())
    critic = reference_loop.make_critic(manager)
    assert critic(line)
    refined = mind.rcc_refinement(
        lambda item, points: manager.mutate(manager_plan(item)), critic, line, manager, num_turns=6
    )
    if refined.worldline_id != line.worldline_id:
        assert any(type(item).__name__ == "WorldlineFork" for item in refined.decision_trace)
        assert refined.memory_links
    assert any(item.agent_prompts for item in manager.graph.nodes.values())


def manager_plan(line):
    return mind.Plan(worldline_manager.get_moves(line), (line.worldline_id,))


def test_graph_keeps_ancestry(manager):  # A2
    one, other = (manager.evaluate(manager.run(manager.investigate())) for _ in range(2))
    child = manager.run(manager.recombine(one, other))
    assert set(child.parents) == {one.worldline_id, other.worldline_id}
    assert {item.worldline_id for item in manager.graph.ancestors(child.worldline_id)} == {*child.parents, "W0"}
    again = worldline.from_lines(manager.graph.to_lines())
    assert again.nodes == manager.graph.nodes
    assert child in manager.graph.children(one.worldline_id)
    with pytest.raises(errors.NotFound):
        manager.graph.get("W99")


class TestReview:
    def test_approval_covers_exact_content(self, manager):  # A19
        agent, line = worldline_manager.ReviewAgent(), manager.run(manager.investigate())
        agent.review(line, "content", {"task_progress": 1.0, "temporal_consistency": 1.0})
        assert agent.require(line.worldline_id, "content").is_approved
        with pytest.raises(errors.Conflict, match="changed after its approval"):
            agent.require(line.worldline_id, "content, edited")

    def test_require_rejects_unreviewed_and_rejected(self, manager):
        agent, line = worldline_manager.ReviewAgent(), manager.run(manager.investigate())
        with pytest.raises(errors.Conflict, match="is not approved"):
            agent.require(line.worldline_id, "content")
        agent.review(line, "content", {"task_progress": 0.5, "temporal_consistency": 1.0})
        with pytest.raises(errors.Conflict, match="was rejected"):
            agent.require(line.worldline_id, "content")

"""Several agents in one grid: a round is one tick, and food is shared."""

from random import Random

from atoll.survival import grid
from atoll.survival.multi_agent import SharedGrid
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.world import Action

WAIT, GATHER = Action("wait"), Action("gather")


def make_shared_grid(preset, num_agents, seed=3):
    shared_grid = SharedGrid(preset, 1, num_agents)
    shared_grid.reset_world(seed)
    return shared_grid


def run_round(shared_grid, *actions):
    """Executes one action of every living agent, in order."""
    shared_grid.begin_round()
    turns = zip(shared_grid.agent_grids, shared_grid.bodies, actions, strict=True)
    return [agent.act(action) if body.is_alive else None for agent, body, action in turns]


def test_one_agent_sees_the_same_as_in_grid_world():
    shared_grid, world, rng = make_shared_grid("caldera", 1), GridWorld("caldera", 1), Random(0)
    assert shared_grid.agent_grids[0].reset(3) == world.reset(3)
    while not shared_grid.is_over:
        action = Action(rng.choice(grid.ACTIONS))
        (observation,) = run_round(shared_grid, action)
        assert observation == world.act(action)
    assert observation.is_over


def test_round_is_one_tick_for_all_agents():
    shared_grid = make_shared_grid("meadow", 3)
    assert [observation.tick for observation in run_round(shared_grid, WAIT, WAIT, WAIT)] == [1, 1, 1]
    assert [observation.tick for observation in run_round(shared_grid, WAIT, WAIT, WAIT)] == [2, 2, 2]


def test_round_without_actions_is_one_tick():
    shared_grid = make_shared_grid("meadow", 2)
    shared_grid.begin_round()
    shared_grid.pass_time()
    shared_grid.pass_time()
    assert shared_grid.terrain.tick == 1


def test_food_is_shared():
    shared_grid = make_shared_grid("meadow", 2)
    bush = next(cell for cell, thing in shared_grid.terrain.things.items() if thing == "bush")
    for body in shared_grid.bodies:
        body.cell, body.food = bush, 0.2
    assert [observation.gained for observation in run_round(shared_grid, GATHER, GATHER)] == [("food",), ()]


def test_other_agents_continue_after_a_death():
    shared_grid = make_shared_grid("meadow", 3)
    shared_grid.bodies[0].life = 0.0
    dead, *others = run_round(shared_grid, WAIT, WAIT, WAIT)
    assert dead is None
    assert not any(observation.is_over for observation in others)
    assert not shared_grid.is_over


def test_episode_ends_when_all_are_dead():
    shared_grid = make_shared_grid("tundra", 2)
    while not shared_grid.is_over:
        run_round(shared_grid, WAIT, WAIT)
    assert shared_grid.terrain.tick < 100

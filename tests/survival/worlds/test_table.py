"""Several in one world: a round is one tick, and what one takes is gone for the others."""

from random import Random

from atoll.survival import grid
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.shared_grid import SharedGrid
from atoll.survival.worlds.world import Action

WAIT, GATHER = Action("wait"), Action("gather")


def laid(preset, num_seats, seed=3):
    table = SharedGrid(preset, 1, num_seats)
    table.reset_world(seed)
    return table


def round_of(table, *actions):
    """Lets every living seat act, in order."""
    table.begin_round()
    deeds = zip(table.agent_grids, table.bodies, actions, strict=True)
    return [seat.act(action) if body.is_alive else None for seat, body, action in deeds]


def test_a_table_for_one_is_the_world_of_one_alone():
    table, world, rng = laid("caldera", 1), GridWorld("caldera", 1), Random(0)
    assert table.agent_grids[0].reset(3) == world.reset(3)
    while not table.is_over:
        action = Action(rng.choice(grid.ACTIONS))
        (seen,) = round_of(table, action)
        assert seen == world.act(action)
    assert seen.is_over


def test_a_round_is_one_tick_however_many_there_are():
    table = laid("meadow", 3)
    assert [seen.tick for seen in round_of(table, WAIT, WAIT, WAIT)] == [1, 1, 1]
    assert [seen.tick for seen in round_of(table, WAIT, WAIT, WAIT)] == [2, 2, 2]


def test_a_round_in_which_nobody_does_anything_is_a_tick_too():
    table = laid("meadow", 2)
    table.begin_round()
    table.pass_time()
    table.pass_time()
    assert table.terrain.tick == 1


def test_what_one_eats_the_other_does_not_find():
    table = laid("meadow", 2)
    bush = next(spot for spot, thing in table.terrain.things.items() if thing == "bush")
    for body in table.bodies:
        body.cell, body.food = bush, 0.2
    assert [seen.gained for seen in round_of(table, GATHER, GATHER)] == [("food",), ()]


def test_the_others_live_on_when_one_is_dead():
    table = laid("meadow", 3)
    table.bodies[0].life = 0.0
    dead, *others = round_of(table, WAIT, WAIT, WAIT)
    assert dead is None
    assert not any(seen.is_over for seen in others)
    assert not table.is_over


def test_it_is_over_when_all_are_dead():
    table = laid("tundra", 2)
    while not table.is_over:
        round_of(table, WAIT, WAIT)
    assert table.terrain.tick < 100

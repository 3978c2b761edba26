"""What every world of the survival agent must hold to."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from atoll.survival.worlds.world import Action, Observation, World


class WorldSuite(ABC):
    """Subclass it, say how to make a world, and every test runs on yours."""

    num_steps = 60

    @abstractmethod
    def make(self) -> World:
        """Returns a new world; it is closed after each test."""

    def test_a_life_begins_alive_and_its_levels_are_shares_of_one(self) -> None:
        """After every action too, until it is over."""
        for seen in self._life(seed=1):
            assert 0.0 <= seen.life <= 1.0
            assert all(0.0 <= level <= 1.0 for level in seen.resources.values())
            assert seen.is_alive or seen.is_over, "who died is not over"

    def test_it_offers_nothing_but_its_whitelist(self) -> None:
        """Moves and things are among its actions, and so is whatever it says could be done."""
        with self._opened() as world:
            seen = world.reset(0)
            assert set(world.moves) | set(world.things) <= set(world.actions)
            assert {each.name for each in world.candidates(seen)} <= set(world.actions)

    def test_the_same_seed_is_the_same_life(self) -> None:
        """The same actions after the same reset tell the same."""
        assert [each.to_data() for each in self._life(seed=3)] == [each.to_data() for each in self._life(seed=3)]

    def test_time_never_goes_back(self) -> None:
        """Ticks never go back."""
        ticks = [seen.tick for seen in self._life(seed=2)]
        assert ticks == sorted(ticks)
        assert ticks[-1] > ticks[0]

    def test_a_new_life_forgets_the_last_one(self) -> None:
        """A reset after a life is as good as a new world."""
        with self._opened() as world:
            first = world.reset(5).to_data()
            for action in self._actions(world, Random(0)):
                if world.act(action).is_over:
                    break
            assert world.reset(5).to_data() == first

    def _life(self, seed: int) -> Iterator[Observation]:
        with self._opened() as world:
            seen = world.reset(seed)
            assert seen.is_alive
            yield seen
            for action in self._actions(world, Random(seed)):
                seen = world.act(action)
                yield seen
                if seen.is_over:
                    break

    def _actions(self, world: World, rng: Random) -> Iterator[Action]:
        names = [name for name in world.actions if name in world.moves] or list(world.actions)
        return (Action(rng.choice(names)) for _ in range(self.num_steps))

    @contextmanager
    def _opened(self) -> Iterator[World]:
        world = self.make()
        try:
            yield world
        finally:
            world.close()

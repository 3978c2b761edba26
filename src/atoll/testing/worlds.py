"""Test suite for survival worlds."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random

from atoll.survival.worlds.world import Action, Observation, World


class WorldSuite(ABC):
    """Tests for a world. Subclass it and implement `make`."""

    num_steps = 60

    @abstractmethod
    def make(self) -> World:
        """Returns a new world; each test closes it."""

    def test_levels_are_between_zero_and_one(self) -> None:
        """Life and resources are checked after every action."""
        for observation in self._play_episode(seed=1):
            assert 0.0 <= observation.life <= 1.0
            assert all(0.0 <= level <= 1.0 for level in observation.resources.values())
            assert observation.is_alive or observation.is_over, "the agent died but the episode is not over"

    def test_moves_things_and_candidates_are_known_actions(self) -> None:
        """Moves, things and candidate actions are all in `actions`."""
        with self._open_world() as world:
            observation = world.reset(0)
            assert set(world.moves) | set(world.things) <= set(world.actions)
            assert {candidate.name for candidate in world.candidates(observation)} <= set(world.actions)

    def test_same_seed_gives_same_episode(self) -> None:
        """The same seed and actions give the same observations."""
        assert [observation.to_data() for observation in self._play_episode(seed=3)] == [
            observation.to_data() for observation in self._play_episode(seed=3)
        ]

    def test_ticks_never_decrease(self) -> None:
        """Ticks increase over an episode."""
        ticks = [observation.tick for observation in self._play_episode(seed=2)]
        assert ticks == sorted(ticks)
        assert ticks[-1] > ticks[0]

    def test_reset_forgets_last_episode(self) -> None:
        """A reset after an episode equals a new world."""
        with self._open_world() as world:
            first = world.reset(5).to_data()
            for action in self._generate_actions(world, Random(0)):
                if world.act(action).is_over:
                    break
            assert world.reset(5).to_data() == first

    def _play_episode(self, seed: int) -> Iterator[Observation]:
        with self._open_world() as world:
            observation = world.reset(seed)
            assert observation.is_alive
            yield observation
            for action in self._generate_actions(world, Random(seed)):
                observation = world.act(action)
                yield observation
                if observation.is_over:
                    break

    def _generate_actions(self, world: World, rng: Random) -> Iterator[Action]:
        names = [name for name in world.actions if name in world.moves] or list(world.actions)
        return (Action(rng.choice(names)) for _ in range(self.num_steps))

    @contextmanager
    def _open_world(self) -> Iterator[World]:
        world = self.make()
        try:
            yield world
        finally:
            world.close()

"""Several bodies in one world: what one eats the others do not find, and beasts choose between them."""

from collections.abc import Sequence
from typing import Any

from atoll import errors
from atoll.survival.grid import presets, views
from atoll.survival.grid.body import ACTIONS, Body
from atoll.survival.grid.survivalgrid import Step, reward_of
from atoll.survival.grid.terrain import make_terrain


class SurvivalParty:
    """A world for several, in rounds: all act, in an order that turns from tick to tick, then time passes once."""

    actions = ACTIONS

    def __init__(self, preset: str = "meadow", family: int = 0, num_bodies: int = 2) -> None:
        if num_bodies < 1:
            raise errors.SetupError(f"A party of {num_bodies} is none: at least 1.")
        self.preset, self.family, self._num = presets.find(preset), family, num_bodies
        self.reset()

    def reset(self, *, seed: int | None = None) -> Sequence[dict[str, Any]]:
        self.terrain = make_terrain(self.preset, seed or 0, self.family, self._num)
        self.bodies = [Body(spot) for spot in self.terrain.starts]
        return [views.symbols(self.terrain, body) for body in self.bodies]

    @property
    def is_over(self) -> bool:
        return self.terrain.tick >= self.preset.max_ticks or not any(body.is_alive for body in self.bodies)

    def step(self, actions: Sequence[int]) -> Sequence[Step]:
        """Lets every living body act, one action each, and one tick pass; the dead stay where they are.

        Raises:
            SetupError: There are more or fewer actions than bodies.
        """
        if len(actions) != len(self.bodies):
            raise errors.SetupError(f"{len(actions)} actions are not one for each of {len(self.bodies)} bodies.")
        terrain = self.terrain
        alive = [number for number, body in enumerate(self.bodies) if body.is_alive]
        needs = [(body.food, body.water) for body in self.bodies]
        turn = terrain.tick % max(1, len(alive))
        for number in alive[turn:] + alive[:turn]:  # nobody is always first at the bush
            self.bodies[number].act(terrain, ACTIONS[actions[number]])
        terrain.pass_time([self.bodies[number].spot for number in alive])
        for number in alive:
            if self.bodies[number].is_alive:
                self.bodies[number].live(terrain)
        return [self._told(number, number in alive, needs[number]) for number in range(len(self.bodies))]

    def _told(self, number: int, was_alive: bool, needs: tuple[float, float]) -> Step:
        body, terrain = self.bodies[number], self.terrain
        reward = reward_of(terrain, body, needs) if was_alive else 0.0
        is_late = terrain.tick >= self.preset.max_ticks
        info = {"tick": terrain.tick, "position": body.spot, "life": body.life, "harm": dict(body.harm)}
        told = {**info, "gained": body.gained, "cause": body.cause}
        return Step(views.symbols(terrain, body), reward, not body.is_alive, is_late and body.is_alive, told)

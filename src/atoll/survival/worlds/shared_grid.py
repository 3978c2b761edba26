"""Several agents in one grid world. They compete for food, and beasts choose among them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atoll.survival import grid
from atoll.survival.grid.terrain import MOVES
from atoll.survival.worlds.gridworld import make_guide, make_observation
from atoll.survival.worlds.world import REACH_HERE, Action, Cell, Observation


class SharedGrid:
    """Terrain that the agents share.

    A round is one tick. The first action of a round advances the tick, the others do not.
    """

    def __init__(self, preset: str, family: int, num_agents: int) -> None:
        self.preset, self._family, self._num_agents = grid.get_preset(preset), family, num_agents
        self.agent_grids = [AgentGrid(self, index) for index in range(num_agents)]
        self.reset_world(0)

    def reset_world(self, seed: int) -> None:
        self.terrain = grid.make_terrain(self.preset, seed, self._family, self._num_agents)
        self.bodies = [grid.Body(cell) for cell in self.terrain.starts]
        self.begin_round()

    def begin_round(self) -> None:
        """Starts a round: the next action advances the tick."""
        self._is_tick_due = True

    def pass_time(self) -> None:
        """Advances the tick of this round unless it has already advanced."""
        if self._is_tick_due:
            self.terrain.pass_time([body.cell for body in self.bodies if body.is_alive])
        self._is_tick_due = False

    @property
    def is_over(self) -> bool:
        return self.terrain.tick >= self.preset.max_ticks or not any(body.is_alive for body in self.bodies)


class AgentGrid:
    """View of one agent. Other agents appear as `other agent` tiles."""

    def __init__(self, shared_grid: SharedGrid, index: int) -> None:
        self._shared_grid, self._index = shared_grid, index
        self.name = f"grid {shared_grid.preset.name}, agent {index}"
        self.actions: Sequence[str] = grid.ACTIONS
        self.moves: Mapping[str, Cell] = MOVES
        self.reach = REACH_HERE
        self.things: Sequence[str] = ("gather",)
        self.patience, self.num_cells, self.is_scored_by_reward = 2, shared_grid.preset.size**2, False
        self._candidates = [Action(name) for name in grid.ACTIONS]
        self.guide = make_guide(shared_grid.preset)

    def reset(self, seed: int) -> Observation:
        return self._observe(0.0)

    def act(self, action: Action) -> Observation:
        shared_grid = self._shared_grid
        body = shared_grid.bodies[self._index]
        needs = (body.food, body.water)
        body.act(shared_grid.terrain, action.name)
        shared_grid.pass_time()
        if body.is_alive:
            body.apply_tick(shared_grid.terrain)
        return self._observe(grid.compute_reward(shared_grid.terrain, body, needs))

    def _observe(self, reward: float) -> Observation:
        shared_grid = self._shared_grid
        base_observation = make_observation(shared_grid.terrain, shared_grid.bodies[self._index], reward)
        tiles: dict[Cell, str] = dict(base_observation.tiles)
        for index, body in enumerate(shared_grid.bodies):
            if index != self._index and body.is_alive and body.cell in tiles and tiles[body.cell] == "ground":
                tiles[body.cell] = "other agent"
        return replace(base_observation, tiles=tiles)

    def candidates(self, observation: Observation) -> Sequence[Action]:
        return self._candidates

    def is_inside(self, cell: Cell) -> bool:
        return self._shared_grid.terrain.is_inside(cell)

    def truth(self) -> Mapping[str, bool]:
        meanings = self._shared_grid.terrain.sign_meanings
        return {f"sign {sign}": kind != "nothing" for sign, kind in meanings.items()} | {"beast": True}

    def close(self) -> None:
        """Does nothing: no resources to release."""

"""SurvivalGrid as a world for agents."""

from collections.abc import Mapping, Sequence

from atoll.survival import grid
from atoll.survival.grid.presets import NO_HAZARD as HARMLESS
from atoll.survival.grid.terrain import GROUND, MOVES
from atoll.survival.worlds.world import REACH_HERE, Action, Cell, Observation, WorldGuide

GUIDE = WorldGuide(
    "Stay alive as long as possible, at most {ticks} ticks. Food and water run down; at 0 they cost life every "
    "tick. Collect what you need, then explore.",
    "Small rewards for each tick alive and for shelter at night, larger ones for a needed meal or drink; minus the "
    "life lost, minus 1 for death.",
    {
        "wait": "stay here for one tick",
        "gather": "take the food or water of the cell that you stand on, if it has some (a bush or a pool)",
    },
)


class GridWorld:
    def __init__(self, preset: str = "meadow", family: int = 0) -> None:
        self.grid = grid.SurvivalGrid(preset, family)
        self.name = f"grid {preset}, family {family}"
        self.actions: Sequence[str] = grid.ACTIONS
        self.moves: Mapping[str, Cell] = MOVES
        self.reach = REACH_HERE
        self.things: Sequence[str] = ("gather",)
        self.patience, self.num_cells, self.is_scored_by_reward = 2, self.grid.preset.size**2, False
        self._candidates = [Action(name) for name in grid.ACTIONS]
        self.guide = make_guide(self.grid.preset)

    def reset(self, seed: int) -> Observation:
        self.grid.begin(seed)
        return make_observation(self.grid.terrain, self.grid.body, 0.0)

    def act(self, action: Action) -> Observation:
        reward = self.grid.advance(action.name)
        return make_observation(self.grid.terrain, self.grid.body, reward)

    def candidates(self, observation: Observation) -> Sequence[Action]:
        return self._candidates

    def is_inside(self, cell: Cell) -> bool:
        return self.grid.terrain.is_inside(cell)

    def truth(self) -> Mapping[str, bool]:
        meanings = self.grid.terrain.sign_meanings
        return {f"sign {sign}": kind != HARMLESS for sign, kind in meanings.items()} | {"beast": True}

    def close(self) -> None:
        self.grid.close()


def make_guide(preset: grid.Preset) -> WorldGuide:
    return GUIDE._replace(goal=GUIDE.goal.format(ticks=preset.max_ticks))


def make_observation(terrain: grid.Terrain, body: grid.Body, reward: float) -> Observation:
    sign = terrain.cell_signs.get(body.cell)
    return Observation(
        terrain.tick,
        body.cell,
        body.life,
        {"food": body.food, "water": body.water},
        grid.get_visible_tiles(terrain, body),
        terrain.things.get(body.cell, GROUND) if sign is None else f"sign {sign}",
        is_dark=terrain.is_night,
        harm=dict(body.harm),
        gained=(body.gained,) if body.gained else (),
        reward=reward,
        is_over=not body.is_alive or terrain.tick >= terrain.preset.max_ticks,
        cause=body.cause,
    )

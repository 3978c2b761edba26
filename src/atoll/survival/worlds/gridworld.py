"""SurvivalGrid as a world for agents, and a hybrid that executes some actions as commands."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atoll.survival import grid
from atoll.survival.grid.terrain import GROUND, MOVES
from atoll.survival.grid.terrain import NO_HAZARD as HARMLESS
from atoll.survival.worlds.operating_system import CommandRunner
from atoll.survival.worlds.playground import Playground, PlaygroundError
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


GATHER_LOG = "stores.txt"  # each gathering is written here before it counts


class HybridWorld:
    """Grid whose `gather` writes to the playground and whose `wait` runs a command.

    If the command is refused, the tick passes without effect.

    Attributes:
        seconds: Duration of each command.
        refusals: Reason of each refusal.
    """

    def __init__(self, world: GridWorld, playground: Playground, runner: CommandRunner | None = None) -> None:
        self._world, self._playground, self._runner = world, playground, runner
        self.requests = playground.log
        self.name = f"hybrid of {world.name}, permission {playground.permission}"
        self.actions: Sequence[str] = world.actions
        self.moves: Mapping[str, Cell] = world.moves
        self.reach, self.things, self.patience = world.reach, world.things, world.patience
        self.num_cells, self.is_scored_by_reward = world.num_cells, world.is_scored_by_reward
        self.guide = world.guide
        self.seconds: list[float] = []
        self.refusals: list[str] = []
        self._gathered = 0

    @property
    def grid_world(self) -> GridWorld:
        return self._world

    def reset(self, seed: int) -> Observation:
        self.seconds, self.refusals, self._gathered = [], [], 0
        return self._world.reset(seed)

    def act(self, action: Action) -> Observation:
        refusal = self._run_as_command(action.name)
        if not refusal:
            return self._world.act(action)
        self.refusals.append(refusal)
        return replace(self._world.act(Action("wait")), refused=refusal)

    def _run_as_command(self, name: str) -> str:
        """Executes the command of an action; returns why it failed."""
        if name == "gather":
            refusal = self._playground.find_refusal("write", GATHER_LOG)
            if not refusal:
                refusal = self._write(f"gathered {self._gathered + 1} times\n")
                self._gathered += not refusal
            self._playground.log_request("write", GATHER_LOG, refusal or "done")
            return refusal
        if name == "wait" and self._playground.commands and self._playground.permission == "run":
            command = self._playground.commands[0]
            refusal = self._playground.find_refusal("run", command)
            if not refusal and self._runner is not None:
                result = self._runner([command])
                self.seconds.append(result.seconds)
                refusal = result.failure
            self._playground.log_request("run", command, refusal or "done", self.seconds[-1] if self.seconds else 0.0)
            return refusal
        return ""

    def _write(self, text: str) -> str:
        try:
            self._playground.write(GATHER_LOG, text)
        except PlaygroundError as error:
            return str(error)
        return ""

    def facts(self) -> dict[str, float]:
        mean = sum(self.seconds) / len(self.seconds) if self.seconds else 0.0
        return {"latency_seconds": mean, "commands": float(len(self.seconds)), "refusals": float(len(self.refusals))}

    def candidates(self, observation: Observation) -> Sequence[Action]:
        return self._world.candidates(observation)

    def is_inside(self, cell: Cell) -> bool:
        return self._world.is_inside(cell)

    def truth(self) -> Mapping[str, bool] | None:
        return self._world.truth()

    def close(self) -> None:
        self._world.close()

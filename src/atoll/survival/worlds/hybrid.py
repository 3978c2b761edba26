"""Grid with some actions executed as commands (the seed's second phase), to measure latency and refusals."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atoll.survival.worlds.commands import CommandRunner
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.playground import Playground, PlaygroundError
from atoll.survival.worlds.world import Action, Cell, Observation

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

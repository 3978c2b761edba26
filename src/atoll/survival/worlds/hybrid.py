"""The grid with some actions done as commands (the seed's second phase): how late and how often refused they are."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atoll.survival.worlds.commands import Runner
from atoll.survival.worlds.gridworld import GridWorld
from atoll.survival.worlds.playground import Barred, Playground
from atoll.survival.worlds.world import Action, Observation, Spot

LEDGER = "stores.txt"  # what was gathered is written down before it counts


class HybridWorld:
    """A grid whose `gather` writes into the playground and whose `wait` runs a command; if that is refused, the tick
    passes and nothing is gathered.

    Attributes:
        seconds: What every such action took.
        refusals: Why some were not done.
    """

    def __init__(self, world: GridWorld, playground: Playground, runner: Runner | None = None) -> None:
        self._world, self._playground, self._runner = world, playground, runner
        self.requests = playground.log
        self.name = f"hybrid of {world.name}, permission {playground.permission}"
        self.actions: Sequence[str] = world.actions
        self.moves: Mapping[str, Spot] = world.moves
        self.reach, self.things, self.patience = world.reach, world.things, world.patience
        self.num_cells, self.is_scored_by_reward = world.num_cells, world.is_scored_by_reward
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
        refused = self._as_command(action.name)
        if not refused:
            return self._world.act(action)
        self.refusals.append(refused)
        return replace(self._world.act(Action("wait")), refused=refused)

    def _as_command(self, name: str) -> str:
        """Does the real part of an action; returns why it could not be done."""
        if name == "gather":
            refused = self._playground.refusal("write", LEDGER)
            if not refused:
                refused = self._written(f"gathered {self._gathered + 1} times\n")
                self._gathered += not refused
            self._playground.note("write", LEDGER, refused or "done")
            return refused
        if name == "wait" and self._playground.commands and self._playground.permission == "run":
            command = self._playground.commands[0]
            refused = self._playground.refusal("run", command)
            if not refused and self._runner is not None:
                ran = self._runner([command])
                self.seconds.append(ran.seconds)
                refused = ran.failure
            self._playground.note("run", command, refused or "done", self.seconds[-1] if self.seconds else 0.0)
            return refused
        return ""

    def _written(self, text: str) -> str:
        try:
            self._playground.write(LEDGER, text)
        except Barred as error:
            return str(error)
        return ""

    def facts(self) -> dict[str, float]:
        """Returns what real actions cost: their mean latency and how many were refused."""
        mean = sum(self.seconds) / len(self.seconds) if self.seconds else 0.0
        return {"latency_seconds": mean, "commands": float(len(self.seconds)), "refusals": float(len(self.refusals))}

    def candidates(self, seen: Observation) -> Sequence[Action]:
        return self._world.candidates(seen)

    def is_inside(self, spot: Spot) -> bool:
        return self._world.is_inside(spot)

    def truth(self) -> Mapping[str, bool] | None:
        return self._world.truth()

    def close(self) -> None:
        self._world.close()

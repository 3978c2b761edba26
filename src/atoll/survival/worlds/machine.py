"""The operating system as a world (the seed's last phase): look, read, write in the playground, run a few commands.

Life is trust: a refusal costs some of it, and news is what there is to gain.
"""

from collections.abc import Mapping, Sequence

from atoll.survival import words
from atoll.survival.roles.custodian import Custodian
from atoll.survival.worlds.commands import Runner
from atoll.survival.worlds.playground import STAGES, Barred, Playground
from atoll.survival.worlds.world import HERE, Action, Observation, Spot

MAX_TICKS = 40
REFUSAL = 0.2
NEWS, ALIVE = 0.1, 0.01


class MachineWorld:
    """A machine, seen through a playground."""

    def __init__(self, playground: Playground, runner: Runner | None = None) -> None:
        self.playground, self._runner = playground, runner
        self._custodian = Custodian(playground)
        self.requests = playground.log
        self.name = f"os, permission {playground.permission}"
        self.actions: Sequence[str] = STAGES
        self.moves: Mapping[str, Spot] = {}
        self.reach = HERE
        self.things: Sequence[str] = STAGES
        self.patience = 3
        self.num_cells = 0
        self.is_scored_by_reward = True
        self._tick, self._life, self._seen = 0, 1.0, set[str]()

    def reset(self, seed: int) -> Observation:
        self._tick, self._life, self._seen = 0, 1.0, set()
        return self._told("", "", 0.0)

    def act(self, action: Action) -> Observation:
        self._tick += 1
        refused = self.playground.refusal(action.name, action.target)
        if refused:
            self.playground.note(action.name, action.target, f"refused: {refused}")
            return self._told("", refused, REFUSAL)
        text, failure, seconds = self._done(action)
        self.playground.note(action.name, action.target, failure or "done", seconds)
        return self._told(text, failure, REFUSAL / 2 if failure else 0.0)

    def _done(self, action: Action) -> tuple[str, str, float]:
        """Does an action that is allowed; returns what it said, why it failed, and how long it took."""
        match action.name:
            case "observe":
                return self._custodian.share(), "", 0.0
            case "read":
                try:
                    return self.playground.read(action.target), "", 0.0
                except Barred as error:
                    return "", str(error), 0.0
            case "write":
                try:
                    self.playground.write(action.target, action.text or f"note of tick {self._tick}\n")
                except Barred as error:
                    return "", str(error), 0.0
                return "", "", 0.0
            case _:
                if self._runner is None:
                    return "", "there is nobody to run commands", 0.0
                ran = self._runner(action.target.split())
                return ran.output, ran.failure, ran.seconds

    def _told(self, text: str, refused: str, lost: float) -> Observation:
        is_news = bool(text) and text not in self._seen
        self._seen.add(text)
        self._life = max(0.0, self._life - lost)
        is_dead = self._life <= 1e-9
        return Observation(
            self._tick,
            (0, 0),
            self._life,
            {},
            harm={"refusal": lost} if lost else {},
            gained=("news",) if is_news else (),
            reward=ALIVE + NEWS * is_news - lost,
            text=text,
            refused=refused,
            is_over=is_dead or self._tick >= MAX_TICKS,
            cause="refusal" if is_dead else None,
        )

    def candidates(self, seen: Observation) -> Sequence[Action]:
        names = (str(path.relative_to(self.playground.root)) for path in self.playground.files())
        fit = [name for name in names if words.is_fit(name)]  # whoever names a file does not speak to the agent
        found = [Action("observe"), *(Action("read", name) for name in fit[:8])]
        found.append(Action("write", "notes.md", f"tick {self._tick}: life {self._life:.1f}\n"))
        return [*found, *(Action("run", name) for name in self.playground.commands)]

    def is_inside(self, spot: Spot) -> bool:
        return False

    def truth(self) -> Mapping[str, bool] | None:
        return None

    def close(self) -> None:
        """Ends nothing: the runner belongs to whoever made it."""

"""Operating system as a world (the seed's last phase): observe, read, write in the playground, run commands.

Life stands for trust: each refusal reduces it. New information is the gain.
"""

from collections.abc import Mapping, Sequence

from atoll.survival import untrusted_text
from atoll.survival.roles.custodian import Custodian
from atoll.survival.worlds.commands import CommandRunner
from atoll.survival.worlds.playground import PERMISSIONS, Playground, PlaygroundError
from atoll.survival.worlds.world import REACH_HERE, Action, Cell, Observation, WorldGuide

MAX_TICKS = 40
REFUSAL_COST = 0.2
NEWS_REWARD, ALIVE_REWARD = 0.1, 0.01

GUIDE = WorldGuide(
    "Gather new information without losing trust. Life stands for trust.",
    "A small reward for each tick, a larger one for new information; minus the trust lost by refused actions.",
    {
        "observe": "list the files of the playground",
        "read": "read a file of the playground",
        "write": "write a text into a file of the playground",
        "run": "run an allowed command in the sandbox",
    },
)


class OSWorld:
    guide = GUIDE

    def __init__(self, playground: Playground, runner: CommandRunner | None = None) -> None:
        self.playground, self._runner = playground, runner
        self._custodian = Custodian(playground)
        self.requests = playground.log
        self.name = f"os, permission {playground.permission}"
        self.actions: Sequence[str] = PERMISSIONS
        self.moves: Mapping[str, Cell] = {}
        self.reach = REACH_HERE
        self.things: Sequence[str] = PERMISSIONS
        self.patience, self.num_cells, self.is_scored_by_reward = 3, 0, True
        self._tick, self._life, self._seen_texts = 0, 1.0, set[str]()

    def reset(self, seed: int) -> Observation:
        self._tick, self._life, self._seen_texts = 0, 1.0, set()
        return self._make_observation("", "", 0.0)

    def act(self, action: Action) -> Observation:
        self._tick += 1
        refusal = self.playground.find_refusal(action.name, action.target)
        if refusal:
            self.playground.log_request(action.name, action.target, f"refused: {refusal}")
            return self._make_observation("", refusal, REFUSAL_COST)
        text, failure, seconds = self._execute(action)
        self.playground.log_request(action.name, action.target, failure or "done", seconds)
        return self._make_observation(text, failure, REFUSAL_COST / 2 if failure else 0.0)

    def _execute(self, action: Action) -> tuple[str, str, float]:
        """Executes an allowed action; returns output, failure and duration."""
        match action.name:
            case "observe":
                return self._custodian.describe(), "", 0.0
            case "read":
                try:
                    return self.playground.read(action.target), "", 0.0
                except PlaygroundError as error:
                    return "", str(error), 0.0
            case "write":
                try:
                    self.playground.write(action.target, action.text or f"note of tick {self._tick}\n")
                except PlaygroundError as error:
                    return "", str(error), 0.0
                return "", "", 0.0
            case _:
                if self._runner is None:
                    return "", "this run has no command runner", 0.0
                result = self._runner(action.target.split())
                return result.output, result.failure, result.seconds

    def _make_observation(self, text: str, refusal: str, damage: float) -> Observation:
        is_new = bool(text) and text not in self._seen_texts
        self._seen_texts.add(text)
        self._life = max(0.0, self._life - damage)
        is_dead = self._life <= 1e-9
        return Observation(
            self._tick,
            (0, 0),
            self._life,
            {},
            harm={"refusal": damage} if damage else {},
            gained=("news",) if is_new else (),
            reward=ALIVE_REWARD + NEWS_REWARD * is_new - damage,
            text=text,
            refused=refusal,
            is_over=is_dead or self._tick >= MAX_TICKS,
            cause="refusal" if is_dead else None,
        )

    def candidates(self, observation: Observation) -> Sequence[Action]:
        names = (str(path.relative_to(self.playground.root)) for path in self.playground.list_files())
        safe_names = list(filter(untrusted_text.is_safe_name, names))  # file names must not address the agent
        actions = [Action("observe"), *(Action("read", name) for name in safe_names[:8])]
        actions.append(Action("write", "notes.md", f"tick {self._tick}: life {self._life:.1f}\n"))
        return [*actions, *(Action("run", name) for name in self.playground.commands)]

    def is_inside(self, cell: Cell) -> bool:
        return False

    def truth(self) -> Mapping[str, bool] | None:
        return None

    def close(self) -> None:
        """Does nothing: the creator of the runner closes it."""

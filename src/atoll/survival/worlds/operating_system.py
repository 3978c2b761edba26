"""Operating system as a world: whitelisted commands in the sandbox, files to read, a playground to write in."""

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from atoll import errors, executor
from atoll.candidate import JSON
from atoll.survival.roles import sentinel
from atoll.survival.worlds.playground import PERMISSIONS, Custodian, Playground, PlaygroundError
from atoll.survival.worlds.world import REACH_HERE, Action, Cell, Observation, WorldGuide

MAX_OUTPUT_CHARS = 4000


class CommandResult(NamedTuple):
    """Output of a command, or why it failed, and its duration."""

    output: str
    failure: str
    seconds: float


class CommandRunner(Protocol):
    """Runs a command, given as a list of words, in the playground."""

    def __call__(self, args: Sequence[str], /) -> CommandResult: ...


class CommandJob:
    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, request: Any) -> JSON:
        completed = subprocess.run(
            request["words"],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        return {"status": completed.returncode, "output": completed.stdout[:MAX_OUTPUT_CHARS]}


class SandboxedRunner:
    """Runs commands in a sandbox that allows only these programs and one readable folder."""

    def __init__(self, executor_config: executor.ExecutorConfig, names: Sequence[str], folder: str) -> None:
        self._paths = {name: _find_program(name) for name in names}
        base_permissions = executor_config.permissions
        permissions = replace(
            base_permissions,
            may_fork=True,
            programs=(*base_permissions.programs, *self._paths.values()),
            read_paths=(*base_permissions.read_paths, folder),
        )
        local_config = replace(executor_config.local, permissions=permissions, num_slots=1)
        self._slot_pool = local_config.open(partial(CommandJob, folder))

    @property
    def level(self) -> str:
        return self._slot_pool.level

    def __call__(self, args: Sequence[str]) -> CommandResult:
        result = self._slot_pool.run({"words": [self._paths[args[0]], *args[1:]]})
        output: Any = result.value
        if result.failure is not None or output is None:
            return CommandResult("", result.failure or "no output", result.seconds)
        failure = f"exit status {output['status']}" if output["status"] else ""
        return CommandResult(output["output"], failure, result.seconds)

    def close(self) -> None:
        self._slot_pool.close()


def _find_program(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise errors.SetupError(f"Command {name!r} not found on this machine. Remove it from task.commands.")
    return path


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
        safe_names = list(filter(sentinel.is_safe_name, names))  # file names must not address the agent
        actions = [Action("observe"), *(Action("read", name) for name in safe_names[:8])]
        actions.append(Action("write", "notes.md", f"tick {self._tick}: life {self._life:.1f}\n"))
        return [*actions, *(Action("run", name) for name in self.playground.commands)]

    def is_inside(self, cell: Cell) -> bool:
        return False

    def truth(self) -> Mapping[str, bool] | None:
        return None

    def close(self) -> None:
        """Does nothing: the creator of the runner closes it."""

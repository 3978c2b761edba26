"""Whitelisted commands in the sandbox: no shell, no network, read access to the playground only."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from atoll import errors, executor
from atoll.candidate import JSON

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

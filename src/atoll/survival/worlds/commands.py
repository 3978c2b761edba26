"""Whitelisted commands, run in the jail of the run: no shell, no network, nothing but the playground to read."""

import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, Protocol

from atoll import errors, executor
from atoll.candidate import JSON

MAX_OUTPUT = 4000


class Ran(NamedTuple):
    """What a command said, or why it said nothing, and how long it took."""

    output: str
    failure: str
    seconds: float


class Runner(Protocol):
    """Runs the words of a command in the playground."""

    def __call__(self, words: Sequence[str], /) -> Ran: ...


class Started:
    """The job inside the jail: starts a program by its words."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __call__(self, request: Any) -> JSON:
        ended = subprocess.run(
            request["words"],
            cwd=self._folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            check=False,
        )
        return {"status": ended.returncode, "output": ended.stdout[:MAX_OUTPUT]}


class Jailed:
    """Runs commands in a jail that may start these programs alone and read one folder."""

    def __init__(self, place: executor.Place, names: Sequence[str], folder: str) -> None:
        self._paths = {name: _found(name) for name in names}
        own = place.profile
        profile = replace(
            own, may_fork=True, programs=(*own.programs, *self._paths.values()), reads=(*own.reads, folder)
        )
        self._box = replace(place.here, profile=profile, num_slots=1).open(partial(Started, folder))

    @property
    def level(self) -> str:
        return self._box.level

    def __call__(self, words: Sequence[str]) -> Ran:
        answer = self._box.run({"words": [self._paths[words[0]], *words[1:]]})
        found: Any = answer.value
        if answer.failure is not None or found is None:
            return Ran("", answer.failure or "it said nothing", answer.seconds)
        failure = "" if found["status"] == 0 else f"exit status {found['status']}"
        return Ran(found["output"], failure, answer.seconds)

    def close(self) -> None:
        self._box.close()


def _found(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise errors.SetupError(f"There is no command {name!r} on this machine: take it out of task.commands.")
    return path

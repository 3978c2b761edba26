"""A zygote as its parent sees it."""

import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

from atoll.sandbox import process, shelves
from atoll.sandbox.levels import Probe
from atoll.sandbox.limits import Limits
from atoll.sandbox.process import Breach, Process
from atoll.sandbox.profiles import HERE, Profile
from atoll.sandbox.sandbox import Answer
from atoll.sandbox.zygote import Settings

_GRACE_SECONDS = 10.0  # for a zygote to keep the limit of time by itself, and to tidy up
_LONGEST_FAILURE = 2000
# The package would load all that a parent needs, and every module more makes every fork slower (`threading` alone by
# half a millisecond): a stub stands for it until somebody asks it for more than its modules.
_START = """
import os, sys, types
sys.path.insert(0, sys.argv[2])
stub = sys.modules["atoll.sandbox"] = types.ModuleType("atoll.sandbox")
stub.__path__ = [sys.argv[3]]
def find(name):
    is_module = os.path.exists(os.path.join(sys.argv[3], name + ".py"))
    if is_module or name.startswith("__"):
        raise AttributeError(name)
    if sys.modules.get("atoll.sandbox") is stub:
        del sys.modules["atoll.sandbox"]
    import atoll.sandbox as package
    return getattr(package, name)
from atoll.sandbox import zygote
stub.__getattr__ = find
zygote.main(int(sys.argv[1]))
"""


class Warden(Process):
    """Starts one zygote, has it fork a process for every request, and ends it with all that it started."""

    def __init__(self, limits: Limits, level: str, probed: Probe, profile: Profile) -> None:
        self._level, self._probe, self._profile = level, probed, profile
        super().__init__(limits, profile.env)
        self._seconds += _GRACE_SECONDS

    def ask(self, request: bytes) -> Answer:
        """Has the job run on a request in a process of its own; afterwards the zygote may be spent."""
        since = time.perf_counter()
        try:
            line, _, frame = self._swap(request, self._limits.seconds + _GRACE_SECONDS).partition(b"\n")
            failure, self.is_spent, note = json.loads(line)
        except Breach as breach:
            failure, self.is_spent, note, frame = str(breach), True, "", b""
        value = None
        if failure is None:
            failure, value = _unpack(frame)
        output = "\n".join(part for part in (self._printed(), note) if part)
        seconds = time.perf_counter() - since
        return Answer(value, failure and self._placeless(failure), self._placeless(output), seconds)

    def _settings(self, path: Sequence[str]) -> NamedTuple:
        profile, shown = self._profile, shelves.of(self._profile)
        return Settings(
            path=list(path),
            place=self._desk,
            level=self._level,
            user=self._probe.needs_user,
            has_filter=not self._probe.seccomp,
            limits=asdict(self._limits),
            readable=shown.readable,
            startable=shown.startable,
            may_start=profile.may_start,
            builds=HERE in profile.programs,
            network=profile.network,
        )

    def _program(self, life: int) -> list[str]:
        return ["-c", _START, str(life), shelves.PACKAGES, os.path.dirname(__file__)]

    def _environment(self) -> dict[str, str]:
        own = [os.path.dirname(sys.executable)] if self._profile.may_fork else []
        return super()._environment() | {"PATH": os.pathsep.join([*own, os.defpath])} | dict(self._env)

    def _is_tidy(self) -> bool:
        return True  # the zygote wipes, and says so when it cannot


def _unpack(frame: bytes) -> tuple[str | None, Any]:
    """Reads what came out of a candidate's process: believed only as far as its own answer goes."""
    match process.read(frame):
        case [None, bool(), value]:
            return None, value
        case [str() as failure, bool(), _]:
            return failure[:_LONGEST_FAILURE] or "it failed and gave no reason", None
    return "it wrote to the pipe of its result", None

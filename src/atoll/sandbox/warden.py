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
from atoll.sandbox.process import WorkerError, WorkerClient
from atoll.sandbox.profiles import BUILT_PROGRAMS, Permissions
from atoll.sandbox.sandbox import SandboxResult
from atoll.sandbox.zygote import ForkServerSettings

_GRACE_SECONDS = 10.0  # for a zygote to keep the limit of time by itself, and to tidy up
_MAX_FAILURE_CHARS = 2000
# The package would load all that a parent needs, and every module more makes every fork slower (`threading` alone by
# half a millisecond): a stub stands for it until somebody asks it for more than its modules.
_START_SCRIPT = """
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


class ForkServerClient(WorkerClient):
    """Starts one zygote, has it fork a process for every request, and ends it with all that it started."""

    def __init__(self, limits: Limits, level: str, probe_result: Probe, permissions: Permissions) -> None:
        self._level, self._probe, self._permissions = level, probe_result, permissions
        super().__init__(limits, permissions.env)
        self._seconds += _GRACE_SECONDS

    def run_request(self, request: bytes) -> SandboxResult:
        """Has the job run on a request in a process of its own; afterwards the zygote may be spent."""
        start_time = time.perf_counter()
        try:
            line, _, frame = self._exchange(request, self._limits.seconds + _GRACE_SECONDS).partition(b"\n")
            failure, self.is_spent, note = json.loads(line)
        except WorkerError as error:
            failure, self.is_spent, note, frame = str(error), True, "", b""
        value = None
        if failure is None:
            failure, value = _parse_frame(frame)
        output = "\n".join(part for part in (self._read_output(), note) if part)
        seconds = time.perf_counter() - start_time
        return SandboxResult(value, failure and self._mask_locations(failure), self._mask_locations(output), seconds)

    def _make_settings(self, path: Sequence[str]) -> NamedTuple:
        permissions, readable_paths = self._permissions, shelves.find_readable_paths(self._permissions)
        return ForkServerSettings(
            path=list(path),
            place=self._scratch,
            level=self._level,
            user=self._probe.needs_user,
            has_filter=not self._probe.seccomp,
            limits=asdict(self._limits),
            readable=readable_paths.readable,
            startable=readable_paths.startable,
            may_start=permissions.may_start,
            builds=BUILT_PROGRAMS in permissions.programs,
            network=permissions.network,
        )

    def _build_command(self, liveness_fd: int) -> list[str]:
        return ["-c", _START_SCRIPT, str(liveness_fd), shelves.PACKAGES_FOLDER, os.path.dirname(__file__)]

    def _build_environment(self) -> dict[str, str]:
        python_folder = [os.path.dirname(sys.executable)] if self._permissions.may_fork else []
        return super()._build_environment() | {"PATH": os.pathsep.join([*python_folder, os.defpath])} | dict(self._env)

    def _clean_scratch(self) -> bool:
        return True  # the zygote wipes, and says so when it cannot


def _parse_frame(frame: bytes) -> tuple[str | None, Any]:
    """Reads what came out of a candidate's process: believed only as far as its own answer goes."""
    match process.parse_json(frame):
        case [None, bool(), value]:
            return None, value
        case [str() as failure, bool(), _]:
            return failure[:_MAX_FAILURE_CHARS] or "it failed and gave no reason", None
    return "it wrote to the pipe of its result", None

"""One seat on a node: a process of Ray's that holds a warm jail and judges one candidate at a time."""

import json
import os
import platform
from dataclasses import dataclass, replace
from typing import NamedTuple

from atoll import errors, sandbox
from atoll.executor.ray.task_files import ExtractedFiles, TaskFiles
from atoll.sandbox import job_pickle


@dataclass(frozen=True, slots=True)
class ActorConfig:
    """What every seat is made with; the job and the files come beside it, once for each node.

    Attributes:
        limits: What judging one candidate may use.
        require: The weakest level that will do.
        is_unsafe: Whether it may be none.
        is_trusted: Whether candidates share one warm process after another.
        profile: How wide the jail is.
        luggage: Which files travel.
    """

    limits: sandbox.Limits
    require: str | None
    is_unsafe: bool
    is_trusted: bool
    permissions: sandbox.Permissions
    task_files: TaskFiles


class ActorStatus(NamedTuple):
    """How a seat started: its jail's level and its node, or why it has none, in one sentence."""

    failure: str | None
    level: str = ""
    node: str = ""


class EvaluationActor:
    """Runs in a worker of Ray's; no candidate sees that worker's environment, since every jail clears it.

    Args:
        order: What it is made with.
        job: The maker of the job, packed.
        files: The luggage, packed.
        node: The node that it is on.
    """

    def __init__(self, config: ActorConfig, packed_job: bytes, archive: bytes, node: str) -> None:
        self._config, self._packed_job, self._archive, self._node = config, packed_job, archive, node
        self._holds: dict[int, sandbox.Hold] = {}
        self._cancelled: set[int] = set()
        self._extracted = ExtractedFiles(TaskFiles(), b"")
        self._pool: sandbox.ProcessPool | None = None

    def open(self) -> ActorStatus:
        """Makes the jail and the job in it; what goes wrong is said and not raised."""
        try:
            self._pool = self._open_pool()
            self._pool.warm()
        except errors.AtollError as error:
            return ActorStatus(str(error))
        return ActorStatus(None, self._pool.level, self._node)

    def _open_pool(self) -> sandbox.ProcessPool:
        config = self._config
        self._extracted = ExtractedFiles(config.task_files, self._archive)
        make_job = errors.capture(lambda: job_pickle.unpack_job(self._packed_job, self._extracted.resolve))
        if isinstance(make_job, errors.CaughtException):
            raise errors.SetupError(
                f"The job cannot be made on node {platform.node()}: {make_job}. Install there what it imports."
            )
        for program in (
            path for path in config.permissions.programs if os.path.isabs(path) and not os.path.exists(path)
        ):
            raise errors.SetupError(f"Node {platform.node()} has no {program}, which the evaluation starts.")
        return sandbox.open(
            make_job,
            config.limits,
            require=config.require,
            unsafe=config.is_unsafe,
            trusted=config.is_trusted,
            permissions=replace(
                config.permissions, read_paths=tuple(map(self._resolve, config.permissions.read_paths))
            ),
        )

    def _resolve(self, path: str) -> str:
        location = self._config.task_files.locate(path)
        return path if location is None else self._extracted.resolve(location)

    def run(self, request_id: int, request: str) -> sandbox.SandboxResult:
        """Judges one request of JSON; its number is what cancels it."""
        assert self._pool, "a seat is opened first"
        hold = self._holds[request_id] = sandbox.Hold()
        if request_id in self._cancelled:
            hold.cancel()
        try:
            result = self._pool.run(json.loads(request), hold)
        finally:
            del self._holds[request_id]
            self._cancelled.discard(request_id)
        return replace(
            result,
            failure=result.failure and self._extracted.restore_paths(result.failure),
            output=self._extracted.restore_paths(result.output),
        )

    def cancel(self, request_id: int) -> None:
        """Ends a request that runs, or that comes next; called beside `run`."""
        self._cancelled.add(request_id)
        if hold := self._holds.get(request_id):
            hold.cancel()

    def is_alive(self) -> bool:
        return True

    def close(self) -> None:
        """Ends the jail and its processes."""
        if self._pool:
            self._pool.close()

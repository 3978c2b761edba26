"""Ray actor with one warm sandbox; it evaluates one candidate at a time."""

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
    """Settings of every actor. The job and the task files are sent separately, once per node.

    Attributes:
        limits: Limits of one evaluation.
        require: Weakest acceptable sandbox level.
        is_unsafe: Whether L0 is acceptable.
        is_trusted: Whether candidates share warm processes.
        permissions: Permissions of the sandbox.
        task_files: Files that are sent to the nodes.
    """

    limits: sandbox.Limits
    require: str | None
    is_unsafe: bool
    is_trusted: bool
    permissions: sandbox.Permissions
    task_files: TaskFiles


class ActorStatus(NamedTuple):
    """Result of starting an actor: sandbox level and node id, or the failure."""

    failure: str | None
    level: str = ""
    node: str = ""


class EvaluationActor:
    """Runs in a Ray worker. Candidates do not see its environment, because every sandbox clears it.

    Args:
        config: Settings.
        packed_job: Pickled job maker.
        archive: Task files as a tar archive.
        node: Id of the node.
    """

    def __init__(self, config: ActorConfig, packed_job: bytes, archive: bytes, node: str) -> None:
        self._config, self._node = config, node
        self._packed_job, self._archive = packed_job, archive
        self._extracted = ExtractedFiles(TaskFiles(), b"")
        self._pool: sandbox.ProcessPool | None = None

    def open(self) -> ActorStatus:
        """Creates the sandbox and its job; an error is returned, not raised."""
        try:
            self._pool = self._open_pool()
            self._pool.warm()
        except errors.AtollError as error:
            return ActorStatus(str(error))
        return ActorStatus(None, self._pool.level, self._node)

    def _open_pool(self) -> sandbox.ProcessPool:
        config, permissions = self._config, self._config.permissions
        self._extracted = ExtractedFiles(config.task_files, self._archive)
        make_job = errors.capture(lambda: job_pickle.unpack_job(self._packed_job, self._extracted.resolve))
        if isinstance(make_job, errors.CaughtException):
            raise errors.SetupError(
                f"Node {platform.node()} cannot load the job: {make_job}. Install the modules that it imports there."
            )
        for program in permissions.programs:
            if os.path.isabs(program) and not os.path.exists(program):
                raise errors.SetupError(
                    f"Node {platform.node()} does not have the program {program}, which the evaluator starts. "
                    "Install it there."
                )
        return sandbox.open(
            make_job,
            config.limits,
            require=config.require,
            unsafe=config.is_unsafe,
            trusted=config.is_trusted,
            permissions=replace(permissions, read_paths=tuple(map(self._resolve, permissions.read_paths))),
        )

    def _resolve(self, path: str) -> str:
        location = self._config.task_files.locate(path)
        return path if location is None else self._extracted.resolve(location)

    def run(self, request: str) -> sandbox.SandboxResult:
        """Evaluates one request, given as JSON."""
        assert self._pool, "open() comes first"
        result = self._pool.run(json.loads(request))
        return replace(
            result,
            failure=result.failure and self._extracted.restore_paths(result.failure),
            output=self._extracted.restore_paths(result.output),
        )

    def is_alive(self) -> bool:
        return True

    def close(self) -> None:
        if self._pool:
            self._pool.close()

"""Ray actors, each with one warm sandbox, and their pool: started on demand, replaced when they die."""

import contextlib
import json
import logging
import os
import platform
import time
from dataclasses import dataclass, replace
from threading import Condition, Thread
from typing import Any, NamedTuple

from atoll import errors, sandbox
from atoll.executor.ray.config import RayConfig
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


log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2
_WARN_SECONDS = 20.0  # without any actor, until a warning is logged
_PING_SECONDS = 30.0
_MAX_FAILED_STARTS = 5  # in a row


@dataclass(slots=True, eq=False)
class ActorHandle:
    """One actor, as seen from the coordinator."""

    actor: Any
    node: str = ""


class ActorPool:
    """Hands out idle Ray actors, one request each. Ray decides where they run and whether it adds nodes.

    Args:
        ray: The Ray library, connected.
        config: Settings of the actors.
        object_refs: Ray references to the job and the task files; Ray copies each once per node.
        ray_config: Resources of an actor.
        num_actors: Maximum number of actors.
    """

    def __init__(
        self, ray: Any, config: ActorConfig, object_refs: tuple[Any, Any], ray_config: RayConfig, num_actors: int
    ) -> None:
        self._ray, self._ray_config, self._num_actors = ray, ray_config, num_actors
        self._config, self._object_refs = config, object_refs
        make_remote = ray.remote(max_restarts=0, max_task_retries=0, **ray_config.make_ray_options())
        self._actor_class = make_remote(_make_actor_class(ray))
        self._condition = Condition()
        self.is_closed = False
        self._idle: list[ActorHandle] = []
        self._busy: set[ActorHandle] = set()
        self._starting: dict[Any, ActorHandle] = {}
        self._levels: set[str] = set()
        self._failure: str | None = None
        self._num_waiting = self._num_failed_starts = 0
        self._starter_thread: Thread | None = None

    @property
    def level(self) -> str:
        """Sandbox level of the weakest node so far."""
        return min(self._levels, default="L0")

    def acquire(self) -> ActorHandle | None:
        """Waits for an idle actor; returns None when the pool is closed.

        Raises:
            SetupError: The job cannot be created, or no node has free resources.
        """
        with self._condition:
            self._num_waiting += 1
            try:
                while not self.is_closed:
                    if self._idle:
                        handle = self._idle.pop()
                        self._busy.add(handle)
                        return handle
                    if self._failure is not None:
                        raise errors.SetupError(self._failure)
                    self._start_actors()
                    self._condition.wait(_POLL_SECONDS)
            finally:
                self._num_waiting -= 1
        return None

    def release(self, handle: ActorHandle) -> None:
        with self._condition:
            self._busy.discard(handle)
            self._idle.append(handle)
            self._condition.notify()

    def drop(self, handle: ActorHandle) -> None:
        """Kills an actor if it is alive, and forgets it."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(handle.actor)
        with self._condition:
            self._busy.discard(handle)
            self._condition.notify_all()

    def drop_dead_on_node(self, node: str) -> int:
        """Drops the dead idle actors of a node before they get a request; returns how many."""
        with self._condition:
            idle_on_node = [handle for handle in self._idle if handle.node == node]
            self._idle = [handle for handle in self._idle if handle.node != node]
            self._busy.update(idle_on_node)
        dead = [handle for handle in idle_on_node if not self._is_alive(handle)]
        for handle in idle_on_node:
            self.drop(handle) if handle in dead else self.release(handle)
        return len(dead)

    def _is_alive(self, handle: ActorHandle) -> bool:
        try:
            return bool(self._ray.get(handle.actor.is_alive.remote(), timeout=_PING_SECONDS))
        except (self._ray.exceptions.RayError, TimeoutError):
            return False

    def close(self) -> None:
        """Kills all actors; waiting requests get none."""
        with self._condition:
            self.is_closed = True
            handles = [*self._idle, *self._busy, *self._starting.values()]
            self._idle.clear()
            self._condition.notify_all()
            starter_thread = self._starter_thread
        for handle in handles:
            self.drop(handle)  # the sandbox ends itself when its parent dies
        if starter_thread:
            starter_thread.join()

    def _start_actors(self) -> None:
        """Starts one actor for each waiting request, up to the maximum."""
        num_existing = len(self._idle) + len(self._busy) + len(self._starting)
        for _ in range(min(self._num_actors - num_existing, self._num_waiting - len(self._starting))):
            actor = self._actor_class.remote(self._config, *self._object_refs)
            self._starting[actor.open.remote()] = ActorHandle(actor)
        if self._starter_thread is None and self._starting:
            self._starter_thread = Thread(target=self._await_starts, name="atoll-actor-starter", daemon=True)
            self._starter_thread.start()

    def _await_starts(self) -> None:
        """Adds actors to the pool as they start, until none is starting."""
        start_time, has_warned = time.monotonic(), False
        while refs := self._list_starting():
            done, _ = self._ray.wait(refs, num_returns=1, timeout=_POLL_SECONDS)
            for ref in done:
                self._add_started(ref)
            if done or self._idle or self._busy:
                start_time, has_warned = time.monotonic(), False
            waited = time.monotonic() - start_time
            if waited > _WARN_SECONDS and not has_warned:
                has_warned = True
                log.warning("no node of the Ray cluster has %s free; waiting", self._ray_config)
            if waited > self._ray_config.wait_seconds:
                self._give_up(
                    f"No node of the Ray cluster had {self._ray_config} free for {waited:.0f} s. Start a node, or "
                    "request less with --set executor.cpus=..., then resume the run."
                )

    def _list_starting(self) -> list[Any]:
        with self._condition:
            refs = [] if self.is_closed or self._failure is not None else list(self._starting)
            if not refs:
                self._starter_thread = None
            return refs

    def _add_started(self, ref: Any) -> None:
        status: ActorStatus | None = None
        with contextlib.suppress(self._ray.exceptions.RayError):
            status = self._ray.get(ref)
        with self._condition:
            handle = self._starting.pop(ref)
            self._num_failed_starts = 0 if status else self._num_failed_starts + 1
            if status and status.failure is None:
                handle.node = status.node
                self._levels.add(status.level)
                self._idle.append(handle)
            self._condition.notify_all()
        if status and status.failure is not None:
            self._give_up(status.failure)
        elif self._num_failed_starts >= _MAX_FAILED_STARTS:
            self._give_up(
                f"{self._num_failed_starts} Ray actors in a row died at their start. Check the Ray logs on the nodes."
            )

    def _give_up(self, reason: str) -> None:
        with self._condition:
            self._failure = self._failure or reason
            self._condition.notify_all()


def _make_actor_class(ray: Any) -> type:
    """Returns an actor class that looks up its node id; only the node itself knows it."""

    class Actor(EvaluationActor):
        def __init__(self, config: ActorConfig, packed_job: bytes, archive: bytes) -> None:
            super().__init__(config, packed_job, archive, ray.get_runtime_context().get_node_id())

    return Actor

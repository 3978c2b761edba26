"""The seats of a cluster: asked for when somebody waits, lent to one request at a time, replaced when they die."""

import contextlib
import logging
import time
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any

from atoll import errors, sandbox
from atoll.executor.ray.actor import ActorConfig, ActorStatus, EvaluationActor
from atoll.executor.ray.config import RayConfig

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.2  # how often somebody who waits for a seat looks whether he is still wanted
_WARN_SECONDS = 20.0  # without any seat, until a word is said of it
_PING_SECONDS = 30.0
_MAX_FAILED_STARTS = 5  # of seats in a row that die before they are open


@dataclass(slots=True, eq=False)
class ActorHandle:
    """A seat as the coordinator sees it; `kill` and `is_spent` are what a `Hold` needs of whoever works."""

    actor: Any
    node: str = ""
    request_id: int = 0
    is_spent: bool = False

    def kill(self) -> None:
        self.actor.cancel.remote(self.request_id)


class ActorPool:
    """Lends seats; where they are, and whether nodes are started for them, is Ray's to decide.

    Args:
        ray: The library, connected.
        order: What seats are made with; `goods` are references to the job and the files, of which Ray brings one copy
            to a node.
        goods: See there.
        terms: What a seat asks of the cluster.
        num_seats: How many there may be.
    """

    def __init__(
        self, ray: Any, config: ActorConfig, object_refs: tuple[Any, Any], ray_config: RayConfig, num_actors: int
    ) -> None:
        self._ray, self._config, self._object_refs, self._ray_config, self._num_actors = (
            ray,
            config,
            object_refs,
            ray_config,
            num_actors,
        )
        groups = {"beside": 2}  # for what is heard while a request runs
        make_remote = ray.remote(
            concurrency_groups=groups, max_restarts=0, max_task_retries=0, **ray_config.make_ray_options()
        )
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
        """That of the weakest node so far."""
        return min(self._levels, default="L0")

    def acquire(self, hold: sandbox.Hold | None = None) -> ActorHandle | None:
        """Waits for a seat; None: there will be none, or nobody wants it any more.

        Raises:
            SetupError: The job cannot be made, or no node has room.
        """
        with self._condition:
            self._num_waiting += 1
            try:
                while not (self.is_closed or (hold and hold.is_cancelled)):
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
        """Ends a seat, if it still lives."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(handle.actor)
        with self._condition:
            self._busy.discard(handle)
            self._condition.notify_all()

    def drop_dead_on_node(self, node: str) -> int:
        """Drops the seats of a node that wait for nothing more, so that no request is lost to them; says how many."""
        with self._condition:
            idle_on_node = [handle for handle in self._idle if handle.node == node]
            self._idle = [handle for handle in self._idle if handle.node != node]
            self._busy.update(idle_on_node)
        dead = [handle for handle in idle_on_node if not self._is_alive(handle)]
        for each in idle_on_node:
            self.drop(each) if each in dead else self.release(each)
        return len(dead)

    def _is_alive(self, handle: ActorHandle) -> bool:
        try:
            return bool(self._ray.get(handle.actor.is_alive.remote(), timeout=_PING_SECONDS))
        except (self._ray.exceptions.RayError, TimeoutError):
            return False

    def close(self) -> None:
        """Ends all seats; whoever waits gets none."""
        with self._condition:
            self.is_closed = True
            handles = [*self._idle, *self._busy, *self._starting.values()]
            self._idle.clear()
            self._condition.notify_all()
            starter_thread = self._starter_thread
        for handle in handles:
            self.drop(handle)  # its jail ends with it: it sees its parent go
        if starter_thread:
            starter_thread.join()

    def _start_actors(self) -> None:
        """Asks for as many seats as somebody waits for, and as there may be."""
        num_existing = len(self._idle) + len(self._busy) + len(self._starting)
        for _ in range(min(self._num_actors - num_existing, self._num_waiting - len(self._starting))):
            actor = self._actor_class.remote(self._config, *self._object_refs)
            self._starting[actor.open.remote()] = ActorHandle(actor)
        if self._starter_thread is None and self._starting:
            self._starter_thread = Thread(target=self._await_starts, name="atoll-usher", daemon=True)
            self._starter_thread.start()

    def _await_starts(self) -> None:
        """Takes in the seats that have started, for as long as there are any to come."""
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
                log.warning("no node of the cluster has room for %s yet: waiting", self._ray_config)
            if waited > self._ray_config.wait_seconds:
                self._give_up(
                    f"For {waited:.0f} s no node of the cluster had room for {self._ray_config}: start one, or ask for less "
                    "with --set executor.cpus=..., then resume the run."
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
            self._give_up("Seats on the cluster die as soon as they start: look at Ray's own logs on its nodes.")

    def _give_up(self, reason: str) -> None:
        with self._condition:
            self._failure = self._failure or reason
            self._condition.notify_all()


def _make_actor_class(ray: Any) -> type:
    """Returns the seat as Ray knows it: it is told its node, and some things are heard beside a request."""

    class Actor(EvaluationActor):
        def __init__(self, config: ActorConfig, packed_job: bytes, archive: bytes) -> None:
            super().__init__(config, packed_job, archive, ray.get_runtime_context().get_node_id())

        @ray.method(concurrency_group="beside")  # type: ignore[untyped-decorator]
        def cancel(self, request_id: int) -> None:
            super().cancel(request_id)

        @ray.method(concurrency_group="beside")  # type: ignore[untyped-decorator]
        def is_alive(self) -> bool:
            return super().is_alive()

    return Actor

"""Requests on a cluster: each is answered once, and what dies with a node is judged again elsewhere."""

import itertools
import json

from atoll import errors, sandbox
from atoll.candidate import JSON
from atoll.executor.ray.actor import ActorConfig
from atoll.executor.ray.actor_pool import ActorHandle, ActorPool
from atoll.executor.ray.config import RayConfig, RayStats
from atoll.executor.ray.connection import RayConnection
from atoll.sandbox import job_pickle

_CLOSED_RESULT = sandbox.SandboxResult(None, sandbox.CLOSED_MESSAGE, "", 0.0)
_GRACE_SECONDS = 420.0  # beyond an evaluation's limit: for a jail that is started anew, and its own grace
_MAX_DEAD_NODES = 20  # that may die under one candidate; more is no accident
_NODE_DIED_TEXT = "node has died"  # Ray's own words, where it knows already


class _ActorDied(Exception):
    """A seat on a node died under a request."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class RaySlotPool:
    """Runs requests in seats of a cluster, as `sandbox.Slots` does in processes of this machine.

    A request whose seat dies is sent again: as often as nodes die under it, and `attempts` times if its seats die
    alone, for then it is probably what they die of.

    Args:
        make_job: Makes the job, in every seat; sent once to each node.
        order: What the seats are made with.
        terms: What a seat asks of the cluster.
        num_seats: How many requests run at once.
        tally: Where is counted what was sent, lost and sent again.

    Raises:
        SetupError: There is no Ray, no cluster, or the job cannot be sent.
    """

    def __init__(
        self,
        make_job: sandbox.MakeJob,
        actor_config: ActorConfig,
        ray_config: RayConfig,
        num_actors: int,
        stats: RayStats,
    ) -> None:
        self._limits, self._ray_config, self._stats = actor_config.limits, ray_config, stats
        self._request_ids, self._failed_nodes = itertools.count(1), set[str]()  # scenes: nodes on which a seat died
        packed_job = job_pickle.pack_job(make_job, actor_config.task_files.locate)
        self._connection = RayConnection(ray_config, num_actors)
        ray = self._ray = self._connection.ray
        object_refs = (ray.put(packed_job), ray.put(actor_config.task_files.pack()))
        self._actor_pool = ActorPool(ray, actor_config, object_refs, ray_config, num_actors)

    @property
    def level(self) -> str:
        """That of the weakest node so far."""
        return self._actor_pool.level

    def warm(self) -> None:
        """Starts a seat unless one is there, so that a wrong job shows before the first candidate.

        Raises:
            SetupError: The job cannot be made, or no node has room.
        """
        if handle := self._actor_pool.acquire():
            self._actor_pool.release(handle)

    def run(self, request: JSON, hold: sandbox.Hold | None = None) -> sandbox.SandboxResult:
        """Runs the job on one request; waits for a seat.

        Raises:
            SetupError: The job cannot be made, or the cluster is gone.
        """
        try:
            body = json.dumps(request)
        except (TypeError, ValueError, RecursionError) as error:
            return sandbox.SandboxResult(None, f"the request is no plain data: {error}", "", 0.0)
        result = self._run_with_retries(body, hold or sandbox.Hold())
        self._stats.count(evaluations=result is not _CLOSED_RESULT)
        return result

    def _run_with_retries(self, body: str, hold: sandbox.Hold) -> sandbox.SandboxResult:
        deaths = list[str]()
        for attempt in range(self._ray_config.attempts + _MAX_DEAD_NODES):
            handle = self._actor_pool.acquire(hold)
            if handle is None:
                return _CLOSED_RESULT
            self._stats.count(again=attempt > 0)
            try:
                result = self._run_once(handle, body, hold)
            except _ActorDied as error:
                if self._actor_pool.is_closed or hold.is_cancelled:
                    return _CLOSED_RESULT
                deaths.append(error.node)
                if len(deaths) >= self._ray_config.attempts and self._is_candidate_at_fault(deaths):
                    break
            else:
                return _CLOSED_RESULT if self._actor_pool.is_closed and result.failure else result
        self._stats.count(given_up=1)
        return sandbox.SandboxResult(None, f"it ended its worker on the cluster {attempt + 1} times", "", 0.0)

    def _run_once(self, handle: ActorHandle, body: str, hold: sandbox.Hold) -> sandbox.SandboxResult:
        """Sends a request to a seat and waits for its answer.

        Raises:
            _Lost: The seat died.
            SetupError: The cluster is gone.
        """
        exceptions, handle.request_id = self._ray.exceptions, next(self._request_ids)
        try:
            with hold.attach(handle):
                result = _CLOSED_RESULT if hold.is_cancelled else self._send(handle, body)
        except (exceptions.LocalRayletDiedError, exceptions.RaySystemError) as error:
            self._actor_pool.drop(handle)
            raise errors.SetupError(
                f"The Ray cluster is gone ({str(error).splitlines()[0][:120]}): start it again, then resume the run."
            ) from error
        except (exceptions.RayError, TimeoutError) as error:
            raise self._record_death(handle, error) from error
        except BaseException:
            self._actor_pool.drop(handle)
            raise
        self._actor_pool.release(handle)
        return result

    def _send(self, handle: ActorHandle, body: str) -> sandbox.SandboxResult:
        ref = handle.actor.run.remote(handle.request_id, body)
        result: sandbox.SandboxResult = self._ray.get(ref, timeout=self._limits.seconds + _GRACE_SECONDS)
        return result

    def _record_death(self, handle: ActorHandle, error: BaseException) -> _ActorDied:
        """Counts a seat that died, and those that died beside it."""
        self._actor_pool.drop(handle)
        self._failed_nodes.add(handle.node)
        self._stats.count(seats_lost=1 + self._actor_pool.drop_dead_on_node(handle.node))
        if _NODE_DIED_TEXT in str(error):
            self._stats.record_dead_node(handle.node)
        return _ActorDied(handle.node)

    def _is_candidate_at_fault(self, deaths: list[str]) -> bool:
        """Says whether so many seats died of a candidate alone: those whose nodes are dead too did not."""
        alive = self._connection.list_live_nodes()
        return sum(node in alive for node in deaths) >= self._ray_config.attempts

    def close(self) -> None:
        """Ends all seats, and the connection if nobody else uses it; whoever waits gets a failure."""
        if not self._actor_pool.is_closed:
            self._actor_pool.close()
            for node in self._failed_nodes.difference(self._connection.list_live_nodes()):
                self._stats.record_dead_node(node)  # it takes Ray a while to notice
            self._connection.close()

"""Slot pool on a Ray cluster. Requests that die with a node are sent again to another."""

import json

from atoll import errors, sandbox
from atoll.candidate import JSON
from atoll.executor.ray.actor import ActorConfig
from atoll.executor.ray.actor_pool import ActorHandle, ActorPool
from atoll.executor.ray.config import RayConfig, RayStats
from atoll.executor.ray.connection import RayConnection
from atoll.sandbox import job_pickle

_CLOSED_RESULT = sandbox.SandboxResult(None, sandbox.CLOSED_MESSAGE, "", 0.0)
_GRACE_SECONDS = 420.0  # beyond an evaluation's limit: a sandbox may have to start first, and has its own grace
_MAX_DEAD_NODES = 20  # for one candidate; more are its fault
_NODE_DIED_TEXT = "node has died"  # in Ray's message, if Ray knows already


class _ActorDied(Exception):
    """An actor died during a request."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class RaySlotPool:
    """Runs requests in Ray actors, as `sandbox.ProcessPool` does in processes of this machine.

    A request whose node dies is sent again. If only its actor dies, the request probably killed it, and gets at most
    `attempts` attempts.

    Args:
        make_job: Creates the job in every actor; sent once per node.
        actor_config: Settings of the actors.
        ray_config: Cluster and resources.
        num_actors: Number of parallel requests.
        stats: Counts results, losses and retries.

    Raises:
        SetupError: Ray is not installed, the cluster is not found, or the job cannot be pickled.
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
        self._failed_nodes = set[str]()  # nodes on which an actor died
        packed_job = job_pickle.pack_job(make_job, actor_config.task_files.locate)
        self._connection = RayConnection(ray_config, num_actors)
        ray = self._ray = self._connection.ray
        object_refs = (ray.put(packed_job), ray.put(actor_config.task_files.pack()))
        self._actor_pool = ActorPool(ray, actor_config, object_refs, ray_config, num_actors)

    @property
    def level(self) -> str:
        """Sandbox level of the weakest node so far."""
        return self._actor_pool.level

    def warm(self) -> None:
        """Starts an actor if none is running, to report a broken job before the first candidate.

        Raises:
            SetupError: The job cannot be created, or no node has free resources.
        """
        if handle := self._actor_pool.acquire():
            self._actor_pool.release(handle)

    def run(self, request: JSON) -> sandbox.SandboxResult:
        """Runs the job on one request; waits for an idle actor.

        Raises:
            SetupError: The job cannot be created, or the cluster is lost.
        """
        try:
            body = json.dumps(request)
        except (TypeError, ValueError, RecursionError) as error:
            return sandbox.SandboxResult(None, f"the request is not plain data: {error}", "", 0.0)
        result = self._run_with_retries(body)
        self._stats.count(evaluations=result is not _CLOSED_RESULT)
        return result

    def _run_with_retries(self, body: str) -> sandbox.SandboxResult:
        deaths = list[str]()
        for attempt in range(self._ray_config.attempts + _MAX_DEAD_NODES):
            handle = self._actor_pool.acquire()
            if handle is None:
                return _CLOSED_RESULT
            self._stats.count(again=attempt > 0)
            try:
                result = self._run_once(handle, body)
            except _ActorDied as error:
                if self._actor_pool.is_closed:
                    return _CLOSED_RESULT
                deaths.append(error.node)
                if len(deaths) >= self._ray_config.attempts and self._is_candidate_at_fault(deaths):
                    break
            else:
                return _CLOSED_RESULT if self._actor_pool.is_closed and result.failure else result
        self._stats.count(given_up=1)
        return sandbox.SandboxResult(None, f"it ended its worker on the cluster {attempt + 1} times", "", 0.0)

    def _run_once(self, handle: ActorHandle, body: str) -> sandbox.SandboxResult:
        """Sends a request to an actor and waits for its result.

        Raises:
            _ActorDied: The actor died.
            SetupError: The cluster is lost.
        """
        exceptions = self._ray.exceptions
        try:
            result: sandbox.SandboxResult = self._ray.get(
                handle.actor.run.remote(body), timeout=self._limits.seconds + _GRACE_SECONDS
            )
        except (exceptions.LocalRayletDiedError, exceptions.RaySystemError) as error:
            self._actor_pool.drop(handle)
            raise errors.SetupError(
                f"The Ray cluster is lost: {str(error).splitlines()[0][:120]}. Start it again, then resume the run."
            ) from error
        except (exceptions.RayError, TimeoutError) as error:
            raise self._record_death(handle, error) from error
        except BaseException:
            self._actor_pool.drop(handle)
            raise
        self._actor_pool.release(handle)
        return result

    def _record_death(self, handle: ActorHandle, error: BaseException) -> _ActorDied:
        """Counts a dead actor, and the dead idle actors on its node."""
        self._actor_pool.drop(handle)
        self._failed_nodes.add(handle.node)
        self._stats.count(seats_lost=1 + self._actor_pool.drop_dead_on_node(handle.node))
        if _NODE_DIED_TEXT in str(error):
            self._stats.record_dead_node(handle.node)
        return _ActorDied(handle.node)

    def _is_candidate_at_fault(self, deaths: list[str]) -> bool:
        """Returns whether `attempts` actors died whose nodes are alive."""
        alive = self._connection.list_live_nodes()
        return sum(node in alive for node in deaths) >= self._ray_config.attempts

    def close(self) -> None:
        """Ends all actors and this use of the connection; waiting requests fail."""
        if not self._actor_pool.is_closed:
            self._actor_pool.close()
            for node in self._failed_nodes.difference(self._connection.list_live_nodes()):
                self._stats.record_dead_node(node)  # Ray notices late
            self._connection.close()

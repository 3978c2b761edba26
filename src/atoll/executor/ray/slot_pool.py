"""Slot pool on a Ray cluster, found by its address or started locally. Requests that die with a node are resent."""

import importlib
import json
import logging
import os
import socket
from math import ceil
from threading import Lock
from typing import Any

from atoll import errors, sandbox
from atoll.candidate import JSON
from atoll.executor.ray.actor_pool import ActorConfig, ActorHandle, ActorPool
from atoll.executor.ray.config import RayConfig, RayStats
from atoll.sandbox import job_pickle

LOCAL = "local"
# Ray and the processes that it starts read these at import.
_QUIET_ENV = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # otherwise workers start by `uv run` if this process did
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# Despite its name, this makes Ray listen only on the loopback, on every system: no one can join our local cluster.
_LOOPBACK_ENV = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

_MAX_STARTS = 3  # a local Ray node has 30 seconds to start, which is too little on a busy machine
_CONNECT_SECONDS = 10.0

_lock = Lock()
_use_counts: dict[str, int] = {}  # address -> users of the connection that this module opened


class RayConnection:
    """Shares this process's one connection to Ray; closing the last user ends it.

    A connection that the caller's program opened before is used and left open.

    Attributes:
        ray: The Ray library.
        address: Address of the cluster.

    Raises:
        SetupError: Ray is not installed, or the cluster is not found.
    """

    def __init__(self, ray_config: RayConfig, num_actors: int) -> None:
        self.address = ray_config.address or os.environ.get("RAY_ADDRESS") or LOCAL
        self.ray = _import_ray(is_local=self.address == LOCAL)
        _require_listener(self.address)
        with _lock:
            self._is_ours = bool(_use_counts) or not self.ray.is_initialized()
            if not self.ray.is_initialized():
                self._connect(ray_config, num_actors)
            if self._is_ours:
                _use_counts[self.address] = _use_counts.get(self.address, 0) + 1

    def _connect(self, ray_config: RayConfig, num_actors: int) -> None:
        # A local cluster cannot grow: it must have what all actors request.
        cpus = max(ceil(ray_config.cpus * num_actors), os.cpu_count() or 1)
        local_resources = {
            "num_cpus": cpus,
            "resources": {name: amount * num_actors for name, amount in ray_config.resources.items()},
        }
        local_options = {**local_resources, "include_dashboard": False} if self.address == LOCAL else {}
        logging_options = {"log_to_driver": False, "configure_logging": False}
        for _ in range(_MAX_STARTS if self.address == LOCAL else 1):
            result = errors.capture(lambda: self.ray.init(address=self.address, **logging_options, **local_options))
            if not isinstance(result, errors.CaughtException):
                return
            self.ray.shutdown()
        raise _make_error(self.address, str(result.error))

    def list_live_nodes(self) -> set[str]:
        """Returns the ids of the nodes that Ray believes alive."""
        return {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}

    def close(self) -> None:
        """Closes the connection after its last use; a local cluster ends with it."""
        with _lock:
            if not self._is_ours:
                return
            self._is_ours = False
            _use_counts[self.address] -= 1
            if not _use_counts[self.address]:
                del _use_counts[self.address]
                self.ray.shutdown()


def _make_error(address: str, reason: str) -> errors.SetupError:
    message = " ".join(reason.split())[:160]
    if address == LOCAL:
        return errors.SetupError(f"Ray does not start on this machine: {message}. Try again, or use --executor local.")
    return errors.SetupError(
        f"Ray cluster not found at {address} ({message}). Start one with 'ray start --head --port=6379', on other "
        "machines with 'ray start --address=HOST:6379', or remove executor.address."
    )


def _require_listener(address: str) -> None:
    """Checks that a server listens at `HOST:PORT`; Ray itself would try for minutes.

    Raises:
        SetupError: No server listens there.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "://" not in address:
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError as error:
            raise _make_error(address, error.strerror or str(error)) from error


def _import_ray(*, is_local: bool) -> Any:
    """Imports Ray and silences its output.

    Raises:
        SetupError: Ray is not installed.
    """
    for name, value in (_QUIET_ENV | (_LOOPBACK_ENV if is_local else {})).items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        ray: Any = importlib.import_module("ray")
        worker: Any = importlib.import_module("ray._private.worker")
    except ImportError as error:
        raise errors.SetupError("--executor ray needs Ray. Run: pip install 'atoll[ray]'") from error
    # Messages about dead nodes would go to stdout, which is for results; Ray has no other switch for them.
    worker._worker_logs_enabled = False
    return ray


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

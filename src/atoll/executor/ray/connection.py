"""Connection of this process to a Ray cluster, which is found by its address or started locally."""

import importlib
import logging
import os
import socket
from math import ceil
from threading import Lock
from typing import Any

from atoll import errors
from atoll.executor.ray.config import RayConfig

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

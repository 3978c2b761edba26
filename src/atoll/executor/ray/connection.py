"""The cluster that this process works with: found by its address, or started here for as long as it is needed."""

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
# Read by Ray when it is imported, and by the processes that it starts. An address that is told is always obeyed.
_QUIET_ENV = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else every worker is started by `uv run`, if this process was
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# Despite its name this has Ray listen on the loopback alone, on every system: nobody else joins a cluster of our own.
_LOOPBACK_ENV = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

_MAX_STARTS = 3  # Ray gives a node of its own 30 seconds, which a busy machine may not have
_CONNECT_SECONDS = 10.0

_lock = Lock()
_use_counts: dict[str, int] = {}  # of a connection that this module made, by its address


class RayConnection:
    """Holds this process's connection to a cluster; the last one that was opened here ends it.

    A process has one connection: one that somebody else made is used, and left alone.

    Attributes:
        ray: The library.
        address: Where the cluster is.

    Raises:
        SetupError: Ray is not installed, or there is no cluster.
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
        # A cluster of our own has what the seats ask for: nobody else could start a node for it.
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
        """Returns the nodes that live, as far as Ray knows."""
        return {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}

    def close(self) -> None:
        """Ends the connection if this was its last use, and with it a cluster that was started here."""
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
        return errors.SetupError(f"Ray cannot be started on this machine ({message}): try again, or judge without it.")
    return errors.SetupError(
        f"There is no Ray cluster at {address} ({message}): start one with 'ray start --head --port=6379', on other "
        "machines with 'ray start --address=HOST:6379', or leave executor.address out."
    )


def _require_listener(address: str) -> None:
    """Looks whether anybody listens at `HOST:PORT`: Ray itself would look for minutes.

    Raises:
        SetupError: Nobody does.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "://" not in address:
        try:
            socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
        except OSError as error:
            raise _make_error(address, error.strerror or str(error)) from error


def _import_ray(*, is_local: bool) -> Any:
    """Imports Ray, which says nothing by itself.

    Raises:
        SetupError: It is not installed.
    """
    for name, value in (_QUIET_ENV | (_LOOPBACK_ENV if is_local else {})).items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray").setLevel(logging.ERROR)
    try:
        ray: Any = importlib.import_module("ray")
        worker: Any = importlib.import_module("ray._private.worker")
    except ImportError as error:
        raise errors.SetupError("--executor ray needs Ray: pip install 'atoll[ray]'") from error
    # What raylets say of dead nodes goes to stdout, which is for the result; Ray has no other switch for it.
    worker._worker_logs_enabled = False
    return ray

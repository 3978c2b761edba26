"""The cluster that this process works with: found by its address, or started here for as long as it is needed."""

import importlib
import logging
import os
import socket
from math import ceil
from threading import Lock
from typing import Any

from atoll import errors
from atoll.executor.ray.terms import Terms

LOCAL = "local"
# Read by Ray when it is imported, and by the processes that it starts. An address that is told is always obeyed.
_QUIET = {
    "RAY_ENABLE_UV_RUN_RUNTIME_ENV": "0",  # else every worker is started by `uv run`, if this process was
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}
# Despite its name this has Ray listen on the loopback alone, on every system: nobody else joins a cluster of our own.
_ALONE = {"RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}

_STARTS = 3  # Ray gives a node of its own 30 seconds, which a busy machine may not have
_LOOK_SECONDS = 10.0

_lock = Lock()
_uses: dict[str, int] = {}  # of a connection that this module made, by its address


class Connection:
    """Holds this process's connection to a cluster; the last one that was opened here ends it.

    A process has one connection: one that somebody else made is used, and left alone.

    Attributes:
        ray: The library.
        address: Where the cluster is.

    Raises:
        SetupError: Ray is not installed, or there is no cluster.
    """

    def __init__(self, terms: Terms, num_seats: int) -> None:
        self.address = terms.address or os.environ.get("RAY_ADDRESS") or LOCAL
        self.ray = _library(is_alone=self.address == LOCAL)
        _require_listener(self.address)
        with _lock:
            self._is_ours = bool(_uses) or not self.ray.is_initialized()
            if not self.ray.is_initialized():
                self._connect(terms, num_seats)
            if self._is_ours:
                _uses[self.address] = _uses.get(self.address, 0) + 1

    def _connect(self, terms: Terms, num_seats: int) -> None:
        # A cluster of our own has what the seats ask for: nobody else could start a node for it.
        cpus = max(ceil(terms.cpus * num_seats), os.cpu_count() or 1)
        own = {"num_cpus": cpus, "resources": {name: each * num_seats for name, each in terms.resources.items()}}
        alone = {**own, "include_dashboard": False} if self.address == LOCAL else {}
        quiet = {"log_to_driver": False, "configure_logging": False}
        for _ in range(_STARTS if self.address == LOCAL else 1):
            found = errors.attempt(lambda: self.ray.init(address=self.address, **quiet, **alone))
            if not isinstance(found, errors.Caught):
                return
            self.ray.shutdown()
        raise _missing(self.address, str(found.error))

    def nodes(self) -> set[str]:
        """Returns the nodes that live, as far as Ray knows."""
        return {node["NodeID"] for node in self.ray.nodes() if node["Alive"]}

    def close(self) -> None:
        """Ends the connection if this was its last use, and with it a cluster that was started here."""
        with _lock:
            if not self._is_ours:
                return
            self._is_ours = False
            _uses[self.address] -= 1
            if not _uses[self.address]:
                del _uses[self.address]
                self.ray.shutdown()


def _missing(address: str, why: str) -> errors.SetupError:
    said = " ".join(why.split())[:160]
    if address == LOCAL:
        return errors.SetupError(f"Ray cannot be started on this machine ({said}): try again, or judge without it.")
    return errors.SetupError(
        f"There is no Ray cluster at {address} ({said}): start one with 'ray start --head --port=6379', on other "
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
            socket.create_connection((host.strip("[]"), int(port)), _LOOK_SECONDS).close()
        except OSError as error:
            raise _missing(address, error.strerror or str(error)) from error


def _library(*, is_alone: bool) -> Any:
    """Imports Ray, which says nothing by itself.

    Raises:
        SetupError: It is not installed.
    """
    for name, value in (_QUIET | (_ALONE if is_alone else {})).items():
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

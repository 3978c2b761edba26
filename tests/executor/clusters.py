"""Ray clusters on this machine, for tests: on the loopback, quiet, and gone afterwards."""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

# Before Ray is imported, and for the processes that it starts. A secret that no candidate may see is among them.
os.environ.update(
    RAY_ENABLE_UV_RUN_RUNTIME_ENV="0",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_AUTH_MODE="disabled",
)

# A node that was killed is missed after five seconds instead of fourteen.
HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}


@contextlib.contextmanager
def cluster(num_nodes: int = 3, cpus: int = 2) -> Iterator[Any]:
    """Starts a cluster, connects this process, and ends both."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["ATOLL_TEST_API_KEY"] = "a secret"
    made = Cluster()
    try:
        add(made, num_cpus=cpus, include_dashboard=False, _system_config=HEALTH)
        for _ in range(num_nodes - 1):
            add(made, num_cpus=cpus)
        ray.init(address=made.address, log_to_driver=False, configure_logging=False)
        try:
            yield made
        finally:
            ray.shutdown()
    finally:
        del os.environ["ATOLL_TEST_API_KEY"]
        left = pids(made)
        made.shutdown()
        deadline = time.monotonic() + 60
        while any(map(alive, left)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(alive, left)), "a process of the cluster is left"


def add(made: Any, **given: Any) -> None:
    """Adds a node; Ray gives it 30 seconds to start, which a busy machine may not have."""
    for attempt in range(5):
        try:
            made.add_node(**given)
        except Exception as error:
            if attempt == 4 or "timed out" not in str(error).lower():
                raise
        else:
            return


def pids(made: Any) -> list[int]:
    """Returns the processes that a cluster was started with."""
    nodes = made.list_all_nodes()
    return [each.process.pid for node in nodes for kind in node.all_processes.values() for each in kind]


def kill(made: Any, node: Any) -> None:
    """Ends a node as a cut of its power would: all its processes at once, and nobody is told."""
    made.remove_node(node, allow_graceful=False)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

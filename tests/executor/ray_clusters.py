"""Ray clusters for tests, on the loopback of this machine."""

import contextlib
import os
import time
from collections.abc import Iterator
from typing import Any

# Ray reads these at import; so do the processes that it starts.
os.environ.update(
    RAY_ENABLE_UV_RUN_RUNTIME_ENV="0",
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_AUTH_MODE="disabled",
)

# Detects a killed node after 5 instead of 14 seconds.
HEALTH = {"health_check_initial_delay_ms": 0, "health_check_period_ms": 1000, "health_check_failure_threshold": 5}


@contextlib.contextmanager
def open_cluster(num_nodes: int = 3, cpus: int = 2) -> Iterator[Any]:
    """Starts a cluster and connects this process; ends both afterwards."""
    import ray
    from ray.cluster_utils import Cluster

    os.environ["ATOLL_TEST_API_KEY"] = "a secret"
    cluster = Cluster()
    try:
        add(cluster, num_cpus=cpus, include_dashboard=False, _system_config=HEALTH)
        for _ in range(num_nodes - 1):
            add(cluster, num_cpus=cpus)
        ray.init(address=cluster.address, log_to_driver=False, configure_logging=False)
        try:
            yield cluster
        finally:
            ray.shutdown()
    finally:
        del os.environ["ATOLL_TEST_API_KEY"]
        pids_left = pids(cluster)
        cluster.shutdown()
        deadline = time.monotonic() + 60
        while any(map(alive, pids_left)) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert not any(map(alive, pids_left)), "a process of the cluster is left"


def add(cluster: Any, **options: Any) -> None:
    """Adds a node; tries again if it does not start within Ray's 30 seconds."""
    for attempt in range(5):
        try:
            cluster.add_node(**options)
        except Exception as error:
            if attempt == 4 or "timed out" not in str(error).lower():
                raise
        else:
            return


def pids(cluster: Any) -> list[int]:
    """Returns the process ids of a cluster."""
    nodes = cluster.list_all_nodes()
    return [info.process.pid for node in nodes for kind in node.all_processes.values() for info in kind]


def kill(cluster: Any, node: Any) -> None:
    """Kills all processes of a node at once, like a power failure."""
    cluster.remove_node(node, allow_graceful=False)


def alive(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False

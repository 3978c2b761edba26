"""Settings and statistics of evaluations on a Ray cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from atoll.candidate import EMPTY


@dataclass(frozen=True, slots=True)
class RayConfig:
    """Cluster and resources. One actor evaluates one candidate at a time.

    Attributes:
        address: `HOST:PORT`, or `auto` for the cluster on this machine. None: RAY_ADDRESS if set, otherwise a local
            cluster that starts and ends with the run.
        cpus: Processors per actor.
        gpus: GPUs per actor.
        memory_mb: Memory per actor in MiB, for Ray's scheduling; None: not scheduled.
        resources: Custom Ray resources per actor, by name.
        attempts: How often a candidate is evaluated if its actor dies and its node does not.
        wait_seconds: How long to wait for a node with free resources.
    """

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    memory_mb: int | None = None
    resources: Mapping[str, float] = EMPTY
    attempts: int = 3
    wait_seconds: float = 300.0

    def make_ray_options(self) -> dict[str, Any]:
        """Returns the resource options of `ray.remote`."""
        options: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus, "resources": dict(self.resources)}
        return options | ({"memory": self.memory_mb * 2**20} if self.memory_mb else {})

    def __str__(self) -> str:
        requirements = {"CPUs": self.cpus, "GPUs": self.gpus, "MiB": self.memory_mb or 0, **self.resources}
        return ", ".join(f"{amount:g} {name}" for name, amount in requirements.items() if amount)


class RayStats:
    """Counters of the evaluations on a cluster; thread-safe.

    Attributes:
        evaluations: Requests with a result.
        again: Requests that were sent again because their actor died.
        seats_lost: Actors that died, idle or busy, alone or with their node.
        nodes_lost: Nodes with an actor that died.
        given_up: Candidates that were given up because all their actors died.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._dead_nodes: set[str] = set()
        self.evaluations = self.again = self.seats_lost = self.nodes_lost = self.given_up = 0

    def count(self, *, evaluations: int = 0, again: int = 0, seats_lost: int = 0, given_up: int = 0) -> None:
        with self._lock:
            self.evaluations += evaluations
            self.again += again
            self.seats_lost += seats_lost
            self.given_up += given_up

    def record_dead_node(self, node: str) -> None:
        """Counts a dead node once."""
        with self._lock:
            self._dead_nodes.add(node)
            self.nodes_lost = len(self._dead_nodes)

    def to_data(self) -> dict[str, int]:
        names = ("evaluations", "again", "seats_lost", "nodes_lost", "given_up")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        summary = f"{self.evaluations:,} evaluations on the cluster, {self.again:,} sent again"
        losses = {"actors lost": self.seats_lost, "nodes lost": self.nodes_lost, "candidates given up": self.given_up}
        return ", ".join([summary, *(f"{count:,} {name}" for name, count in losses.items() if count)])

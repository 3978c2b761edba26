"""What evaluations ask of a Ray cluster."""

from collections.abc import Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any

from atoll.candidate import EMPTY


@dataclass(frozen=True, slots=True)
class RayConfig:
    """How a run uses a cluster; one seat judges one candidate at a time.

    Attributes:
        address: `HOST:PORT`, `auto` for the one that runs on this machine; None: what RAY_ADDRESS says, else a
            cluster of this machine alone, which is started for the run and ends with it.
        cpus: Processors of a seat, and so are `gpus`.
        gpus: See there.
        memory_mb: Memory of a seat that Ray plans with, in MiB; None: it plans with none.
        resources: What a seat needs besides, by the names that the nodes were started with.
        attempts: How often a candidate is judged whose seat dies meanwhile, though its node lives.
        wait_seconds: How long to wait for a node with room before a run that has none is given up.
    """

    address: str | None = None
    cpus: float = 1.0
    gpus: float = 0.0
    memory_mb: int | None = None
    resources: Mapping[str, float] = EMPTY
    attempts: int = 3
    wait_seconds: float = 300.0

    def make_ray_options(self) -> dict[str, Any]:
        """Returns what Ray is told of a seat."""
        options: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus, "resources": dict(self.resources)}
        return options | ({"memory": self.memory_mb * 2**20} if self.memory_mb else {})

    def __str__(self) -> str:
        requirements = {"CPUs": self.cpus, "GPUs": self.gpus, "MiB": self.memory_mb or 0, **self.resources}
        return ", ".join(f"{amount:g} {name}" for name, amount in requirements.items() if amount)


class RayStats:
    """What became of the evaluations that were sent out; several threads count.

    Attributes:
        evaluations: Requests that were answered.
        again: Times that one was sent once more, because its seat died.
        seats_lost: Seats that died under a request or while they waited, with their node or alone.
        nodes_lost: Nodes that died with a seat on them.
        given_up: Candidates of which every seat died.
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
        """Counts a node that died, once."""
        with self._lock:
            self._dead_nodes.add(node)
            self.nodes_lost = len(self._dead_nodes)

    def to_data(self) -> dict[str, int]:
        names = ("evaluations", "again", "seats_lost", "nodes_lost", "given_up")
        return {name: getattr(self, name) for name in names}

    def __str__(self) -> str:
        summary = f"{self.evaluations:,} evaluations on the cluster, {self.again:,} sent again"
        losses = {"seats lost": self.seats_lost, "nodes lost": self.nodes_lost, "candidates given up": self.given_up}
        return ", ".join([summary, *(f"{count:,} {name}" for name, count in losses.items() if count)])

"""What a cluster cost a run: counted as it happens, told at the end."""

from threading import Lock


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

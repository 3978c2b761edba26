"""The seats of a cluster: asked for when somebody waits, lent to one request at a time, replaced when they die."""

import contextlib
import logging
import time
from dataclasses import dataclass
from threading import Condition, Thread
from typing import Any

from atoll import errors, sandbox
from atoll.executor.ray.seat import Opened, Order, Seat
from atoll.executor.ray.terms import Terms

log = logging.getLogger(__name__)

_LOOK_SECONDS = 0.2  # how often somebody who waits for a seat looks whether he is still wanted
_PATIENCE_SECONDS = 20.0  # without any seat, until a word is said of it
_PING_SECONDS = 30.0
_MOST_STARTS = 5  # of seats in a row that die before they are open


@dataclass(slots=True, eq=False)
class Berth:
    """A seat as the coordinator sees it; `kill` and `is_spent` are what a `Hold` needs of whoever works."""

    actor: Any
    node: str = ""
    number: int = 0
    is_spent: bool = False

    def kill(self) -> None:
        self.actor.cancel.remote(self.number)


class Harbour:
    """Lends seats; where they are, and whether nodes are started for them, is Ray's to decide.

    Args:
        ray: The library, connected.
        order: What seats are made with; `goods` are references to the job and the files, of which Ray brings one copy
            to a node.
        goods: See there.
        terms: What a seat asks of the cluster.
        num_seats: How many there may be.
    """

    def __init__(self, ray: Any, order: Order, goods: tuple[Any, Any], terms: Terms, num_seats: int) -> None:
        self._ray, self._order, self._goods, self._terms, self._num_seats = ray, order, goods, terms, num_seats
        groups = {"beside": 2}  # for what is heard while a request runs
        made = ray.remote(concurrency_groups=groups, max_restarts=0, max_task_retries=0, **terms.options())
        self._seat = made(_actor(ray))
        self._turn = Condition()
        self.is_closed = False
        self._idle: list[Berth] = []
        self._busy: set[Berth] = set()
        self._starting: dict[Any, Berth] = {}
        self._levels: set[str] = set()
        self._failure: str | None = None
        self._num_waiting = self._num_failed_starts = 0
        self._usher: Thread | None = None

    @property
    def level(self) -> str:
        """That of the weakest node so far."""
        return min(self._levels, default="L0")

    def lend(self, hold: sandbox.Hold | None = None) -> Berth | None:
        """Waits for a seat; None: there will be none, or nobody wants it any more.

        Raises:
            SetupError: The job cannot be made, or no node has room.
        """
        with self._turn:
            self._num_waiting += 1
            try:
                while not (self.is_closed or (hold and hold.is_cancelled)):
                    if self._idle:
                        berth = self._idle.pop()
                        self._busy.add(berth)
                        return berth
                    if self._failure is not None:
                        raise errors.SetupError(self._failure)
                    self._staff()
                    self._turn.wait(_LOOK_SECONDS)
            finally:
                self._num_waiting -= 1
        return None

    def take_back(self, berth: Berth) -> None:
        with self._turn:
            self._busy.discard(berth)
            self._idle.append(berth)
            self._turn.notify()

    def drop(self, berth: Berth) -> None:
        """Ends a seat, if it still lives."""
        with contextlib.suppress(self._ray.exceptions.RayError):
            self._ray.kill(berth.actor)
        with self._turn:
            self._busy.discard(berth)
            self._turn.notify_all()

    def look_at(self, node: str) -> int:
        """Drops the seats of a node that wait for nothing more, so that no request is lost to them; says how many."""
        with self._turn:
            beside = [each for each in self._idle if each.node == node]
            self._idle = [each for each in self._idle if each.node != node]
            self._busy.update(beside)
        dead = [each for each in beside if not self._lives(each)]
        for each in beside:
            self.drop(each) if each in dead else self.take_back(each)
        return len(dead)

    def _lives(self, berth: Berth) -> bool:
        try:
            return bool(self._ray.get(berth.actor.is_there.remote(), timeout=_PING_SECONDS))
        except (self._ray.exceptions.RayError, TimeoutError):
            return False

    def close(self) -> None:
        """Ends all seats; whoever waits gets none."""
        with self._turn:
            self.is_closed = True
            everybody = [*self._idle, *self._busy, *self._starting.values()]
            self._idle.clear()
            self._turn.notify_all()
            usher = self._usher
        for berth in everybody:
            self.drop(berth)  # its jail ends with it: it sees its parent go
        if usher:
            usher.join()

    def _staff(self) -> None:
        """Asks for as many seats as somebody waits for, and as there may be."""
        there = len(self._idle) + len(self._busy) + len(self._starting)
        for _ in range(min(self._num_seats - there, self._num_waiting - len(self._starting))):
            actor = self._seat.remote(self._order, *self._goods)
            self._starting[actor.open.remote()] = Berth(actor)
        if self._usher is None and self._starting:
            self._usher = Thread(target=self._usher_in, name="atoll-usher", daemon=True)
            self._usher.start()

    def _usher_in(self) -> None:
        """Takes in the seats that have started, for as long as there are any to come."""
        since, is_told = time.monotonic(), False
        while refs := self._expected():
            done, _ = self._ray.wait(refs, num_returns=1, timeout=_LOOK_SECONDS)
            for ref in done:
                self._admit(ref)
            if done or self._idle or self._busy:
                since, is_told = time.monotonic(), False
            waited = time.monotonic() - since
            if waited > _PATIENCE_SECONDS and not is_told:
                is_told = True
                log.warning("no node of the cluster has room for %s yet: waiting", self._terms)
            if waited > self._terms.wait_seconds:
                self._give_up(
                    f"For {waited:.0f} s no node of the cluster had room for {self._terms}: start one, or ask for less "
                    "with --set executor.cpus=..., then resume the run."
                )

    def _expected(self) -> list[Any]:
        with self._turn:
            refs = [] if self.is_closed or self._failure is not None else list(self._starting)
            if not refs:
                self._usher = None
            return refs

    def _admit(self, ref: Any) -> None:
        opened: Opened | None = None
        with contextlib.suppress(self._ray.exceptions.RayError):
            opened = self._ray.get(ref)
        with self._turn:
            berth = self._starting.pop(ref)
            self._num_failed_starts = 0 if opened else self._num_failed_starts + 1
            if opened and opened.failure is None:
                berth.node = opened.node
                self._levels.add(opened.level)
                self._idle.append(berth)
            self._turn.notify_all()
        if opened and opened.failure is not None:
            self._give_up(opened.failure)
        elif self._num_failed_starts >= _MOST_STARTS:
            self._give_up("Seats on the cluster die as soon as they start: look at Ray's own logs on its nodes.")

    def _give_up(self, why: str) -> None:
        with self._turn:
            self._failure = self._failure or why
            self._turn.notify_all()


def _actor(ray: Any) -> type:
    """Returns the seat as Ray knows it: it is told its node, and some things are heard beside a request."""

    class Actor(Seat):
        def __init__(self, order: Order, job: bytes, files: bytes) -> None:
            super().__init__(order, job, files, ray.get_runtime_context().get_node_id())

        @ray.method(concurrency_group="beside")  # type: ignore[untyped-decorator]
        def cancel(self, number: int) -> None:
            super().cancel(number)

        @ray.method(concurrency_group="beside")  # type: ignore[untyped-decorator]
        def is_there(self) -> bool:
            return super().is_there()

    return Actor

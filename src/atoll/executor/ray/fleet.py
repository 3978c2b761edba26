"""Requests on a cluster: each is answered once, and what dies with a node is judged again elsewhere."""

import itertools
import json

from atoll import errors, sandbox
from atoll.candidate import JSON
from atoll.executor.ray.connection import Connection
from atoll.executor.ray.harbour import Berth, Harbour
from atoll.executor.ray.seat import Order
from atoll.executor.ray.tally import Tally
from atoll.executor.ray.terms import Terms
from atoll.sandbox import parcel

_CLOSED = sandbox.Answer(None, sandbox.CLOSED, "", 0.0)
_GRACE_SECONDS = 420.0  # beyond an evaluation's limit: for a jail that is started anew, and its own grace
_MOST_NODES = 20  # that may die under one candidate; more is no accident
_NODE_DIED = "node has died"  # Ray's own words, where it knows already


class _Lost(Exception):
    """A seat on a node died under a request."""

    def __init__(self, node: str) -> None:
        super().__init__(node)
        self.node = node


class Fleet:
    """Runs requests in seats of a cluster, as `sandbox.Slots` does in processes of this machine.

    A request whose seat dies is sent again: as often as nodes die under it, and `attempts` times if its seats die
    alone, for then it is probably what they die of.

    Args:
        make_job: Makes the job, in every seat; sent once to each node.
        order: What the seats are made with.
        terms: What a seat asks of the cluster.
        num_seats: How many requests run at once.
        tally: Where is counted what was sent, lost and sent again.

    Raises:
        SetupError: There is no Ray, no cluster, or the job cannot be sent.
    """

    def __init__(self, make_job: sandbox.MakeJob, order: Order, terms: Terms, num_seats: int, tally: Tally) -> None:
        self._limits, self._terms, self._tally = order.limits, terms, tally
        self._numbers, self._scenes = itertools.count(1), set[str]()  # scenes: nodes on which a seat died
        job = parcel.pack(make_job, order.luggage.place_of)
        self._connection = Connection(terms, num_seats)
        ray = self._ray = self._connection.ray
        goods = (ray.put(job), ray.put(order.luggage.packed()))
        self._harbour = Harbour(ray, order, goods, terms, num_seats)

    @property
    def level(self) -> str:
        """That of the weakest node so far."""
        return self._harbour.level

    def warm(self) -> None:
        """Starts a seat unless one is there, so that a wrong job shows before the first candidate.

        Raises:
            SetupError: The job cannot be made, or no node has room.
        """
        if berth := self._harbour.lend():
            self._harbour.take_back(berth)

    def run(self, request: JSON, hold: sandbox.Hold | None = None) -> sandbox.Answer:
        """Runs the job on one request; waits for a seat.

        Raises:
            SetupError: The job cannot be made, or the cluster is gone.
        """
        try:
            body = json.dumps(request)
        except (TypeError, ValueError, RecursionError) as error:
            return sandbox.Answer(None, f"the request is no plain data: {error}", "", 0.0)
        answer = self._answered(body, hold or sandbox.Hold())
        self._tally.count(evaluations=answer is not _CLOSED)
        return answer

    def _answered(self, body: str, hold: sandbox.Hold) -> sandbox.Answer:
        deaths = list[str]()
        for attempt in range(self._terms.attempts + _MOST_NODES):
            berth = self._harbour.lend(hold)
            if berth is None:
                return _CLOSED
            self._tally.count(again=attempt > 0)
            try:
                answer = self._asked(berth, body, hold)
            except _Lost as lost:
                if self._harbour.is_closed or hold.is_cancelled:
                    return _CLOSED
                deaths.append(lost.node)
                if len(deaths) >= self._terms.attempts and self._is_poison(deaths):
                    break
            else:
                return _CLOSED if self._harbour.is_closed and answer.failure else answer
        self._tally.count(given_up=1)
        return sandbox.Answer(None, f"it ended its worker on the cluster {attempt + 1} times", "", 0.0)

    def _asked(self, berth: Berth, body: str, hold: sandbox.Hold) -> sandbox.Answer:
        """Sends a request to a seat and waits for its answer.

        Raises:
            _Lost: The seat died.
            SetupError: The cluster is gone.
        """
        exceptions, berth.number = self._ray.exceptions, next(self._numbers)
        try:
            with hold.of(berth):
                answer = _CLOSED if hold.is_cancelled else self._sent(berth, body)
        except (exceptions.LocalRayletDiedError, exceptions.RaySystemError) as error:
            self._harbour.drop(berth)
            raise errors.SetupError(
                f"The Ray cluster is gone ({str(error).splitlines()[0][:120]}): start it again, then resume the run."
            ) from error
        except (exceptions.RayError, TimeoutError) as error:
            raise self._mourned(berth, error) from error
        except BaseException:
            self._harbour.drop(berth)
            raise
        self._harbour.take_back(berth)
        return answer

    def _sent(self, berth: Berth, body: str) -> sandbox.Answer:
        asked = berth.actor.run.remote(berth.number, body)
        answer: sandbox.Answer = self._ray.get(asked, timeout=self._limits.seconds + _GRACE_SECONDS)
        return answer

    def _mourned(self, berth: Berth, error: BaseException) -> _Lost:
        """Counts a seat that died, and those that died beside it."""
        self._harbour.drop(berth)
        self._scenes.add(berth.node)
        self._tally.count(seats_lost=1 + self._harbour.look_at(berth.node))
        if _NODE_DIED in str(error):
            self._tally.mourn(berth.node)
        return _Lost(berth.node)

    def _is_poison(self, deaths: list[str]) -> bool:
        """Says whether so many seats died of a candidate alone: those whose nodes are dead too did not."""
        alive = self._connection.nodes()
        return sum(node in alive for node in deaths) >= self._terms.attempts

    def close(self) -> None:
        """Ends all seats, and the connection if nobody else uses it; whoever waits gets a failure."""
        if not self._harbour.is_closed:
            self._harbour.close()
            for node in self._scenes.difference(self._connection.nodes()):
                self._tally.mourn(node)  # it takes Ray a while to notice
            self._connection.close()

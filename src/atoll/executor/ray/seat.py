"""One seat on a node: a process of Ray's that holds a warm jail and judges one candidate at a time."""

import json
import os
import platform
from dataclasses import dataclass, replace
from typing import NamedTuple

from atoll import errors, sandbox
from atoll.executor.ray.luggage import Luggage, Unpacked
from atoll.sandbox import parcel


@dataclass(frozen=True, slots=True)
class Order:
    """What every seat is made with; the job and the files come beside it, once for each node.

    Attributes:
        limits: What judging one candidate may use.
        require: The weakest level that will do.
        is_unsafe: Whether it may be none.
        is_trusted: Whether candidates share one warm process after another.
        profile: How wide the jail is.
        luggage: Which files travel.
    """

    limits: sandbox.Limits
    require: str | None
    is_unsafe: bool
    is_trusted: bool
    profile: sandbox.Profile
    luggage: Luggage


class Opened(NamedTuple):
    """How a seat started: its jail's level and its node, or why it has none, in one sentence."""

    failure: str | None
    level: str = ""
    node: str = ""


class Seat:
    """Runs in a worker of Ray's; no candidate sees that worker's environment, since every jail clears it.

    Args:
        order: What it is made with.
        job: The maker of the job, packed.
        files: The luggage, packed.
        node: The node that it is on.
    """

    def __init__(self, order: Order, job: bytes, files: bytes, node: str) -> None:
        self._order, self._job, self._files, self._node = order, job, files, node
        self._holds: dict[int, sandbox.Hold] = {}
        self._dropped: set[int] = set()
        self._there = Unpacked(Luggage(), b"")
        self._box: sandbox.Slots | None = None

    def open(self) -> Opened:
        """Makes the jail and the job in it; what goes wrong is said and not raised."""
        try:
            self._box = self._made()
            self._box.warm()
        except errors.AtollError as error:
            return Opened(str(error))
        return Opened(None, self._box.level, self._node)

    def _made(self) -> sandbox.Slots:
        order = self._order
        self._there = Unpacked(order.luggage, self._files)
        make_job = errors.attempt(lambda: parcel.unpack(self._job, self._there.path))
        if isinstance(make_job, errors.Caught):
            raise errors.SetupError(
                f"The job cannot be made on node {platform.node()}: {make_job}. Install there what it imports."
            )
        for program in (path for path in order.profile.programs if os.path.isabs(path) and not os.path.exists(path)):
            raise errors.SetupError(f"Node {platform.node()} has no {program}, which the evaluation starts.")
        return sandbox.open(
            make_job,
            order.limits,
            require=order.require,
            unsafe=order.is_unsafe,
            trusted=order.is_trusted,
            profile=replace(order.profile, reads=tuple(map(self._here, order.profile.reads))),
        )

    def _here(self, path: str) -> str:
        place = self._order.luggage.place_of(path)
        return path if place is None else self._there.path(place)

    def run(self, number: int, request: str) -> sandbox.Answer:
        """Judges one request of JSON; its number is what cancels it."""
        assert self._box, "a seat is opened first"
        hold = self._holds[number] = sandbox.Hold()
        if number in self._dropped:
            hold.cancel()
        try:
            answer = self._box.run(json.loads(request), hold)
        finally:
            del self._holds[number]
            self._dropped.discard(number)
        return replace(
            answer,
            failure=answer.failure and self._there.at_home(answer.failure),
            output=self._there.at_home(answer.output),
        )

    def cancel(self, number: int) -> None:
        """Ends a request that runs, or that comes next; called beside `run`."""
        self._dropped.add(number)
        if hold := self._holds.get(number):
            hold.cancel()

    def is_there(self) -> bool:
        return True

    def close(self) -> None:
        """Ends the jail and its processes."""
        if self._box:
            self._box.close()

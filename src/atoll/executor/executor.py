"""What runs evaluations: on this machine, or on others."""

from typing import Protocol

from atoll import sandbox
from atoll.candidate import JSON


class SlotPool(sandbox.Sandbox, Protocol):
    """What has the slots: processes of this machine (`sandbox.Slots`), or seats on a cluster."""

    def warm(self) -> None:
        """Starts a slot unless one is there, so that a wrong job shows before the first candidate.

        Raises:
            SetupError: The job cannot be made.
        """

    def run(self, request: JSON, hold: sandbox.Hold | None = None) -> sandbox.SandboxResult:
        """Runs the job on one request, as every sandbox does; `hold` lets another thread end it."""


class Pending(Protocol):
    """A request that was taken on."""

    def result(self, timeout: float | None = None) -> sandbox.SandboxResult:
        """Waits for the answer.

        Raises:
            TimeoutError: There is none after so many seconds; the request goes on.
        """

    def cancel(self) -> None:
        """Has no more time spent on it: one that waits is dropped, one that runs is killed.

        Its answer is then a failure that says so, unless it was there already.
        """


class Executor(sandbox.Sandbox, Protocol):
    """Runs one kind of job on many candidates, in as many slots as there are.

    Every request gets exactly one answer. A slot that dies is replaced, and the candidate that it died of has a
    failure for an answer: it is never tried again, so one that kills its slot costs one slot.
    """

    @property
    def num_slots(self) -> int:
        """How many requests run at once."""

    def submit(self, request: JSON) -> Pending:
        """Takes a request on; waits while as many wait already as there are slots.

        Called from several threads at once. After `close` it takes none, and the answer is a failure.
        """

"""Where candidates run: a place that can be killed."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from atoll import errors
from atoll.candidate import JSON

# Runs beside the candidate: takes a request of plain data, mostly the candidate's text, and returns plain data.
type Job = Callable[[Any], JSON]
# Makes the job, once in every worker: it loads the evaluator and its data there. Trusted, and sent by value.
type MakeJob = Callable[[], Job]


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """What became of one request.

    Attributes:
        value: What the job returned; None after a failure.
        failure: Why there is no value, in one sentence: it raised, took too long, used too much memory, died.
        output: The end of what was printed meanwhile, the traceback if it raised, and which limit it broke.
        seconds: Wall clock that it took.
    """

    value: JSON
    failure: str | None
    output: str
    seconds: float


CLOSED_MESSAGE = "the sandbox was closed"  # the failure of a request that nobody worked on any more


class Sandbox(Protocol):
    """Runs one kind of job on many candidates, as many at once as it has workers."""

    @property
    def level(self) -> str:
        """How strong it is, from `L0` (a process of its own with limits) to `L3` (a jail)."""

    def run(self, request: JSON) -> SandboxResult:
        """Runs the job on one request; a bad candidate is an answer, never an exception.

        Called from several threads at once; waits for a free worker. A worker that broke a limit is replaced, and
        no other request notices.

        Raises:
            SetupError: The job itself cannot be made.
        """

    def close(self) -> None:
        """Ends all workers; whoever waits gets a failure. A second call does nothing."""


def run_job(sandbox: Sandbox, request: JSON) -> SandboxResult:
    """Returns the answer to a request about a candidate.

    Raises:
        SetupError: The sandbox was closed meanwhile: that says nothing of the candidate, and must not be stored as if.
    """
    result = sandbox.run(request)
    if result.failure == CLOSED_MESSAGE:
        raise errors.SetupError("The sandbox was closed before it answered: resume the run to judge the candidate.")
    return result

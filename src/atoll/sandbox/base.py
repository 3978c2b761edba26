"""Interface of sandboxes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from atoll import errors
from atoll.candidate import JSON

# Runs in the candidate's process. Takes plain data, mostly the candidate's text, and returns plain data.
type Job = Callable[[Any], JSON]
# Creates the job once in every worker, where it loads the evaluator and its data. Trusted, and sent by value.
type MakeJob = Callable[[], Job]


@dataclass(frozen=True, slots=True)
class SandboxResult:
    """Result of one request.

    Attributes:
        value: Value that the job returned; None after a failure.
        failure: Reason for a missing value, e.g. an exception, a violated limit, or a dead process.
        output: End of the printed output, with the traceback and the violated limit.
        seconds: Wall-clock time.
    """

    value: JSON
    failure: str | None
    output: str
    seconds: float


CLOSED_MESSAGE = "the sandbox was closed"  # failure of requests after `close`


class Sandbox(Protocol):
    """Runs one kind of job on many candidates. Its workers run in parallel, each with one candidate at a time."""

    @property
    def level(self) -> str:
        """Sandbox level, from `L0` (a separate process with limits) to `L3` (full isolation)."""

    def run(self, request: JSON) -> SandboxResult:
        """Runs the job on one request; a bad candidate gives a failure, never an exception.

        Thread-safe; waits for an idle worker. A worker that violated a limit is replaced.

        Raises:
            SetupError: The job cannot be created.
        """

    def close(self) -> None:
        """Ends all workers; waiting requests fail. A second call does nothing."""


def run_job(sandbox: Sandbox, request: JSON) -> SandboxResult:
    """Runs a request; a closed sandbox is an error, because its failure must not be stored as the candidate's.

    Raises:
        SetupError: The sandbox was closed, or the job cannot be created.
    """
    result = sandbox.run(request)
    if result.failure == CLOSED_MESSAGE:
        raise errors.SetupError("The sandbox was closed during an evaluation. Resume the run to repeat it.")
    return result

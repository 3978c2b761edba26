"""Warm processes of our own that candidates run in: level L0."""

from collections.abc import Mapping, Sequence

from atoll.candidate import EMPTY
from atoll.sandbox.limits import Limits
from atoll.sandbox.process import WorkerClient
from atoll.sandbox.sandbox import MakeJob
from atoll.sandbox.slots import ProcessPool

_DEFAULT_LIMITS = Limits()


class ProcessSandbox(ProcessPool):
    """Runs a job in processes that stay, so that a request costs a tenth of a millisecond and no start.

    What it keeps from a candidate: the parent's memory, environment and descriptors, more time, memory and output
    than the limits say, and the answers of others. What it does not: files, the network, and the worker itself. A
    candidate shares its process with the evaluator, so one that means harm can change the evaluator or find the
    token of its request and forge its own answer; and one that starts a session of its own outlives the worker.
    Candidates that a model wrote belong in a jail.

    What a candidate changes in its process (a patched module, a seed) the next one finds. But each starts in an empty
    folder with its streams in order, and a worker in which threads or children go on is replaced.

    Args:
        make_job: Makes the job, in every worker.
        limits: What one request may use. The memory is limited once the job is made, to the address space of the
            whole worker with all that it loaded: numpy takes about 100 MiB of it.
        num_workers: How many requests run at once; a worker starts when it is first needed.
        path: Where the workers look for modules; None: where this process does.
        env: Variables of the environment that candidates see besides.

    Raises:
        SetupError: A limit makes no sense, or the job cannot be sent to a worker.
    """

    def __init__(
        self,
        make_job: MakeJob,
        limits: Limits = _DEFAULT_LIMITS,
        num_workers: int = 1,
        path: Sequence[str] | None = None,
        *,
        env: Mapping[str, str] = EMPTY,
    ) -> None:
        self._env = env
        super().__init__(make_job, limits, num_workers, path)

    @property
    def level(self) -> str:
        return "L0"

    def _start_process(self) -> WorkerClient:
        return WorkerClient(self._limits, self._env)

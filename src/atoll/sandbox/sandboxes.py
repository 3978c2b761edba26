"""Sandboxes with and without isolation, and the choice between them."""

from collections.abc import Mapping, Sequence

from atoll import errors
from atoll.candidate import EMPTY
from atoll.sandbox import levels
from atoll.sandbox.base import MakeJob
from atoll.sandbox.limits import Limits
from atoll.sandbox.permissions import DEFAULT_PERMISSIONS, Permissions
from atoll.sandbox.process.client import ForkServerClient, WorkerClient
from atoll.sandbox.process.pool import ProcessPool

_DEFAULT_LIMITS = Limits()


class IsolatedSandbox(ProcessPool):
    """Runs each request in a new process, forked from an isolated fork server.

    A fork server is a new Python with a clean environment. It creates the job with all rights, then drops them. The
    changes of a candidate end with its process. docs/sandbox.md lists what a candidate can do at each level.

    Args:
        make_job: Creates the job in every fork server.
        limits: Limits of one request.
        num_workers: Number of parallel requests; each has its own fork server, started on demand.
        path: `sys.path` while the job is created; None: that of this process. Candidates can import only installed
            modules.
        level: `L1`, `L2` or `L3`; None: the strongest level of this machine.
        permissions: Permissions beyond the defaults.
        probe_result: Features of this machine; None: probe it.

    Raises:
        SetupError: This machine does not have the level, a limit is invalid, or the job cannot be pickled.
    """

    def __init__(
        self,
        make_job: MakeJob,
        limits: Limits = _DEFAULT_LIMITS,
        num_workers: int = 1,
        path: Sequence[str] | None = None,
        *,
        level: str | None = None,
        permissions: Permissions = DEFAULT_PERMISSIONS,
        probe_result: levels.Probe | None = None,
    ) -> None:
        self._probe = levels.probe() if probe_result is None else probe_result
        strongest = levels.get_level(self._probe)
        self._level, self._permissions = level or strongest, permissions
        if self._level not in levels.ISOLATED_LEVELS or self._level > strongest:
            raise errors.SetupError(levels.describe_refusal(self._probe, self._level))
        super().__init__(make_job, limits, num_workers, path)

    @property
    def level(self) -> str:
        return self._level

    def _start_process(self) -> ForkServerClient:
        return ForkServerClient(self._limits, self._level, self._probe, self._permissions)


class ProcessSandbox(ProcessPool):
    """Runs requests in warm processes, without isolation (L0). A request costs a tenth of a millisecond.

    A candidate cannot reach the parent's memory, environment and descriptors, exceed time, memory and output limits,
    or change results of other candidates that are done. It can reach files, the network, and its worker: it shares
    the process with the evaluator, so a malicious candidate can change the evaluator or forge its own result, and a
    process with its own session outlives the worker. LLM-written candidates belong in an `IsolatedSandbox`.

    Changes in the process, such as a patched module or a seed, stay for the next candidate. Each candidate starts in
    an empty folder with restored streams. A worker with leftover threads or children is replaced.

    Args:
        make_job: Creates the job in every worker.
        limits: Limits of one request. The memory limit applies to the whole worker after the job is created; numpy
            takes about 100 MiB of it.
        num_workers: Number of parallel requests; workers start on demand.
        path: `sys.path` of the workers; None: that of this process.
        env: Additional environment variables for candidates.

    Raises:
        SetupError: A limit is invalid, or the job cannot be pickled.
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


def open(
    make_job: MakeJob,
    limits: Limits = _DEFAULT_LIMITS,
    num_workers: int = 1,
    *,
    require: str | None = None,
    unsafe: bool = False,
    trusted: bool = False,
    permissions: Permissions = DEFAULT_PERMISSIONS,
    probe_result: levels.Probe | None = None,
) -> IsolatedSandbox | ProcessSandbox:
    """Opens the strongest sandbox of this machine.

    Args:
        make_job: Creates the job in every worker.
        limits: Limits of one request.
        num_workers: Number of parallel requests.
        require: Weakest acceptable level, `L1` to `L3`.
        unsafe: Whether L0 is acceptable, although an LLM writes the candidates.
        trusted: Whether to use L0 even if the machine has a stronger level; the fastest choice.
        permissions: Permissions beyond the defaults.
        probe_result: Features of this machine; None: probe it.

    Raises:
        SetupError: The machine does not have the required level; the message says what is missing.
    """
    probe_result = levels.probe() if probe_result is None else probe_result
    level = "L0" if trusted else levels.get_level(probe_result)
    if trusted and require is not None:
        raise errors.SetupError(f"Sandbox level {require} and sandbox.trusted exclude each other. Remove one of them.")
    if require is not None and (require not in levels.LEVELS or level < require):
        raise errors.SetupError(levels.describe_refusal(probe_result, require))
    if level != "L0":
        return IsolatedSandbox(make_job, limits, num_workers, permissions=permissions, probe_result=probe_result)
    if not unsafe and trusted:
        raise errors.SetupError(
            "With sandbox.trusted, LLM-written candidates run with all your rights. Pass --unsafe to allow it."
        )
    if not unsafe:
        raise errors.SetupError(
            "This machine has no sandbox (L0): LLM-written candidates would run with all your rights. Pass --unsafe to "
            f"allow it, or enable a sandbox. {' '.join(levels.describe_missing(probe_result))}"
        )
    return ProcessSandbox(make_job, limits, num_workers, env=permissions.env)

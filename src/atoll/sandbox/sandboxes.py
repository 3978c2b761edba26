"""The strongest sandbox that there is."""

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
    """Runs each request in a process of its own, forked from a zygote that made the job and then locked itself in.

    The job is made with all rights, in a fresh Python whose environment is empty; then the rights go. What a
    candidate changes is gone with its process; docs/sandbox.md says what it can do at which level.

    Args:
        make_job: Makes the job, in every zygote.
        limits: What one request may use.
        num_workers: How many requests run at once, each in a jail of its own; one starts when it is first needed.
        path: Where modules are looked for; None: where this process does. Only installed ones can be imported later.
        level: `L1`, `L2` or `L3`; None: the strongest that this machine has.
        profile: What the task needs beyond the usual.
        probed: What this machine has; None: it is tried.

    Raises:
        SetupError: This machine has no such level, a limit makes no sense, or the job cannot be sent.
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
    """Returns a jail, or workers where this machine can do no better.

    Args:
        make_job: Makes the job, in every worker.
        limits: What one request may use.
        num_workers: How many requests run at once.
        require: The weakest level that will do, `L1` to `L3`.
        unsafe: Whether L0 will do, where candidates are a model's and can do all that the user can.
        trusted: Whether L0 is wanted though there is better: candidates share warm processes, which costs least.
        profile: What the task needs beyond the usual.
        probed: What this machine has; None: it is tried.

    Raises:
        SetupError: The machine has no sandbox as strong as that; the message says what is missing.
    """
    probe_result = levels.probe() if probe_result is None else probe_result
    level = "L0" if trusted else levels.get_level(probe_result)
    if trusted and require is not None:
        raise errors.SetupError(f"A sandbox of level {require} and none at all cannot both be had: choose one.")
    if require is not None and (require not in levels.LEVELS or level < require):
        raise errors.SetupError(levels.describe_refusal(probe_result, require))
    if level != "L0":
        return IsolatedSandbox(make_job, limits, num_workers, permissions=permissions, probe_result=probe_result)
    if not unsafe and trusted:
        raise errors.SetupError(
            "Candidates that a model writes would run with all your rights (sandbox.trusted): allow that with --unsafe."
        )
    if not unsafe:
        raise errors.SetupError(
            "Here candidates could do all that you can (sandbox L0), and a model writes them: allow that with "
            f"--unsafe, or get a jail. {' '.join(levels.describe_missing(probe_result))}"
        )
    return ProcessSandbox(make_job, limits, num_workers, env=permissions.env)

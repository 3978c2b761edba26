"""A jail for candidates: levels L1 to L3."""

from collections.abc import Sequence

from atoll import errors
from atoll.sandbox import levels
from atoll.sandbox.limits import Limits
from atoll.sandbox.profiles import DEFAULT_PERMISSIONS, Permissions
from atoll.sandbox.sandbox import MakeJob
from atoll.sandbox.slots import ProcessPool
from atoll.sandbox.warden import ForkServerClient

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

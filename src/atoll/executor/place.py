"""Where a run's candidates are judged, and on what terms."""

import os
import stat
from dataclasses import dataclass, field, replace

from atoll import errors, sandbox
from atoll.executor import ray
from atoll.executor.executor import SlotPool
from atoll.executor.local import LocalExecutor


def cpu_count() -> int:
    """Returns how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_DEFAULT_LIMITS = sandbox.Limits()


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """What a run lays down about its sandbox, whatever is judged there.

    Attributes:
        limits: What judging one candidate may use.
        num_slots: Candidates that are judged at once.
        require: The weakest level that will do; None: any jail.
        is_unsafe: Whether it may be none: whoever started the run said so, or no model writes the candidates.
        is_trusted: Whether candidates share one warm process after another, with no jail; needs `is_unsafe`.
        profile: What the task names beyond what its evaluator's source asks for.
        cluster: What is asked of a Ray cluster; None: candidates are judged on this machine.
        tally: Where is counted what the cluster does.
    """

    limits: sandbox.Limits = _DEFAULT_LIMITS
    num_slots: int = 1
    require: str | None = None
    is_unsafe: bool = False
    is_trusted: bool = False
    permissions: sandbox.Permissions = sandbox.DEFAULT_PERMISSIONS
    ray_config: ray.RayConfig | None = None
    ray_stats: ray.RayStats = field(default_factory=ray.RayStats)

    @property
    def local(self) -> "ExecutorConfig":
        """The same on this machine: for what hangs on its files as they change."""
        return replace(self, ray_config=None)

    def open(self, make_job: sandbox.MakeJob, evaluator_source: str = "", folder: str | None = None) -> LocalExecutor:
        """Opens the slots and starts one, so that a wrong evaluator shows at once.

        Args:
            make_job: Makes the job, in every slot.
            evaluator: The evaluator's own source, which may ask for a wider jail.
            folder: Where it lies.

        Raises:
            SetupError: The machine has no sandbox as strong as that, or the job cannot be made; or there is no
                cluster, or it has no room.
        """
        requested, configured = sandbox.permissions_from_source(evaluator_source, folder), self.permissions
        permissions = replace(
            configured,
            may_fork=configured.may_fork or requested.may_fork,
            programs=(*configured.programs, *requested.programs),
            read_paths=(*configured.read_paths, *requested.read_paths),
        )
        for path in () if self.is_trusted else permissions.read_paths:
            _require_readable(path)
        pool = self._open_local_pool(make_job, permissions) if self.ray_config is None else self._open_ray_pool(make_job, permissions, folder)
        executor = LocalExecutor(pool, self.num_slots)
        try:
            executor.warm()
        except BaseException:
            executor.close()
            raise
        return executor

    def _open_local_pool(self, make_job: sandbox.MakeJob, permissions: sandbox.Permissions) -> SlotPool:
        return sandbox.open(
            make_job,
            self.limits,
            self.num_slots,
            require=self.require,
            unsafe=self.is_unsafe,
            trusted=self.is_trusted,
            permissions=permissions,
        )

    def _open_ray_pool(self, make_job: sandbox.MakeJob, permissions: sandbox.Permissions, folder: str | None) -> SlotPool:
        assert self.ray_config is not None
        task_files = ray.TaskFiles.from_paths([*([folder] if folder else ()), *permissions.read_paths])
        actor_config = ray.ActorConfig(self.limits, self.require, self.is_unsafe, self.is_trusted, permissions, task_files)
        return ray.RaySlotPool(make_job, actor_config, self.ray_config, self.num_slots, self.ray_stats)


def _require_readable(path: str) -> None:
    """Checks that a jail can show a path that it is told to show.

    Raises:
        SetupError: Only root can read it.
    """
    if os.geteuid() == 0 and not os.stat(path).st_mode & stat.S_IROTH and not sandbox.probe().needs_user:
        raise errors.SetupError(
            f"{path} can be read by root alone, and a jail of root's runs as another user: chmod -R a+rX {path}"
        )

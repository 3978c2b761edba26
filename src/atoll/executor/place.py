"""Where a run's candidates are judged, and on what terms."""

import os
import stat
from dataclasses import dataclass, field, replace

from atoll import errors, sandbox
from atoll.executor import ray
from atoll.executor.executor import Box
from atoll.executor.local import Local


def cores() -> int:
    """Returns how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_USUAL = sandbox.Limits()


@dataclass(frozen=True, slots=True)
class Place:
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

    limits: sandbox.Limits = _USUAL
    num_slots: int = 1
    require: str | None = None
    is_unsafe: bool = False
    is_trusted: bool = False
    profile: sandbox.Profile = sandbox.NARROW
    cluster: ray.Terms | None = None
    tally: ray.Tally = field(default_factory=ray.Tally)

    @property
    def here(self) -> "Place":
        """The same on this machine: for what hangs on its files as they change."""
        return replace(self, cluster=None)

    def open(self, make_job: sandbox.MakeJob, evaluator: str = "", folder: str | None = None) -> Local:
        """Opens the slots and starts one, so that a wrong evaluator shows at once.

        Args:
            make_job: Makes the job, in every slot.
            evaluator: The evaluator's own source, which may ask for a wider jail.
            folder: Where it lies.

        Raises:
            SetupError: The machine has no sandbox as strong as that, or the job cannot be made; or there is no
                cluster, or it has no room.
        """
        asked, own = sandbox.profile_of(evaluator, folder), self.profile
        profile = replace(
            own,
            may_fork=own.may_fork or asked.may_fork,
            programs=(*own.programs, *asked.programs),
            reads=(*own.reads, *asked.reads),
        )
        for path in () if self.is_trusted else profile.reads:
            _require_readable(path)
        box = self._box(make_job, profile) if self.cluster is None else self._fleet(make_job, profile, folder)
        opened = Local(box, self.num_slots)
        try:
            opened.warm()
        except BaseException:
            opened.close()
            raise
        return opened

    def _box(self, make_job: sandbox.MakeJob, profile: sandbox.Profile) -> Box:
        return sandbox.open(
            make_job,
            self.limits,
            self.num_slots,
            require=self.require,
            unsafe=self.is_unsafe,
            trusted=self.is_trusted,
            profile=profile,
        )

    def _fleet(self, make_job: sandbox.MakeJob, profile: sandbox.Profile, folder: str | None) -> Box:
        assert self.cluster is not None
        luggage = ray.Luggage.of([*([folder] if folder else ()), *profile.reads])
        order = ray.Order(self.limits, self.require, self.is_unsafe, self.is_trusted, profile, luggage)
        return ray.Fleet(make_job, order, self.cluster, self.num_slots, self.tally)


def _require_readable(path: str) -> None:
    """Checks that a jail can show a path that it is told to show.

    Raises:
        SetupError: Only root can read it.
    """
    if os.geteuid() == 0 and not os.stat(path).st_mode & stat.S_IROTH and not sandbox.probe().needs_user:
        raise errors.SetupError(
            f"{path} can be read by root alone, and a jail of root's runs as another user: chmod -R a+rX {path}"
        )

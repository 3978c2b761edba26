"""What runs evaluations: on this machine, or on others."""

import contextlib
import os
import queue
import stat
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from threading import Lock, Thread
from types import TracebackType
from typing import Protocol, Self

from atoll import errors, sandbox
from atoll.candidate import JSON
from atoll.executor import ray


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


_CANCELLED_RESULT = sandbox.SandboxResult(None, "it was cancelled", "", 0.0)
_CLOSED_RESULT = sandbox.SandboxResult(None, sandbox.CLOSED_MESSAGE, "", 0.0)
_POLL_SECONDS = 0.2  # how often a thread that has nothing to do sees that this was closed


class LocalExecutor:
    """Runs requests in one box of slots.

    `run` works in the caller's thread, and waits there for a slot; `submit` hands over to a thread of our own.

    Args:
        box: Where they run; it is closed with this.
        num_slots: How many run at once: as many as the box has slots.
    """

    def __init__(self, pool: SlotPool, num_slots: int) -> None:
        self._pool, self._num_slots = pool, num_slots
        self._pending: queue.Queue[_Request] = queue.Queue(maxsize=num_slots)
        self._lock = Lock()
        self._threads: list[Thread] = []
        self._is_closed = False

    @property
    def level(self) -> str:
        return self._pool.level

    @property
    def num_slots(self) -> int:
        return self._num_slots

    def warm(self) -> None:
        """Starts a slot unless one is there, so that a wrong job shows before the first candidate.

        Raises:
            SetupError: The job cannot be made.
        """
        self._pool.warm()

    def run(self, request: JSON) -> sandbox.SandboxResult:
        return self._pool.run(request)

    def submit(self, request: JSON) -> "_Request":
        pending_request = _Request(request)
        self._start_threads()
        if self._is_closed:
            pending_request.future.set_result(_CLOSED_RESULT)
        else:
            self._pending.put(pending_request)
            if self._is_closed:  # meanwhile, and perhaps nobody is left to take it
                self._reject_pending()
        return pending_request

    def close(self) -> None:
        """Ends all slots and threads; whoever waits gets a failure. A second call does nothing."""
        with self._lock:
            self._is_closed = True
            threads, self._threads = self._threads, []
        self._pool.close()  # so that no thread is busy for long, and each comes to its end
        for thread in threads:
            thread.join()
        self._reject_pending()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _start_threads(self) -> None:
        """Starts the threads when they are first needed."""
        with self._lock:
            if not self._threads and not self._is_closed:
                self._threads = [Thread(target=self._serve, daemon=True) for _ in range(self._num_slots)]
                for thread in self._threads:
                    thread.start()

    def _serve(self) -> None:
        while not self._is_closed:
            with contextlib.suppress(queue.Empty):
                self._pending.get(timeout=_POLL_SECONDS).run(self._pool)

    def _reject_pending(self) -> None:
        """Answers whoever was handed over while this was closed."""
        with contextlib.suppress(queue.Empty):
            while True:
                self._pending.get_nowait().future.set_result(_CLOSED_RESULT)


class _Request:
    """A request with the answer to come."""

    def __init__(self, request: JSON) -> None:
        self._request = request
        self._hold = sandbox.Hold()
        self.future: Future[sandbox.SandboxResult] = Future()

    def run(self, pool: SlotPool) -> None:
        try:
            result = pool.run(self._request, self._hold)
        except BaseException as error:  # a job that cannot be made is for whoever waits
            self.future.set_exception(error)
        else:
            self.future.set_result(_CANCELLED_RESULT if self._hold.is_cancelled else result)

    def result(self, timeout: float | None = None) -> sandbox.SandboxResult:
        return self.future.result(timeout)

    def cancel(self) -> None:
        if not self.future.done():
            self._hold.cancel()


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
        pool = (
            self._open_local_pool(make_job, permissions)
            if self.ray_config is None
            else self._open_ray_pool(make_job, permissions, folder)
        )
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

    def _open_ray_pool(
        self, make_job: sandbox.MakeJob, permissions: sandbox.Permissions, folder: str | None
    ) -> SlotPool:
        assert self.ray_config is not None
        task_files = ray.TaskFiles.from_paths([*([folder] if folder else ()), *permissions.read_paths])
        actor_config = ray.ActorConfig(
            self.limits, self.require, self.is_unsafe, self.is_trusted, permissions, task_files
        )
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

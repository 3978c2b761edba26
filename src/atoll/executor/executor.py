"""Interfaces of executors, the executor of a run, and its configuration."""

import contextlib
import os
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from atoll import errors, sandbox, secret_scanner
from atoll.candidate import JSON
from atoll.executor import ray


class SlotPool(sandbox.Sandbox, Protocol):
    """Owns the slots: processes of this machine (`sandbox.ProcessPool`) or actors of a cluster (`ray.RaySlotPool`)."""

    def warm(self) -> None:
        """Starts a slot if none is running, to report a broken job before the first candidate.

        Raises:
            SetupError: The job cannot be created.
        """


class Executor(sandbox.Sandbox, Protocol):
    """Runs one kind of job on many candidates, in `num_slots` slots.

    Every request gets exactly one result. A slot that dies is replaced. The candidate that killed it gets a failure
    and is not run again.
    """

    @property
    def num_slots(self) -> int:
        """Number of requests that run in parallel."""


class LocalExecutor:
    """Runs requests in a pool of slots, of this machine or of a Ray cluster. `run` waits for an idle slot.

    Args:
        pool: Slots; closed together with the executor.
        num_slots: Number of slots in the pool.
    """

    def __init__(self, pool: SlotPool, num_slots: int) -> None:
        self._pool, self._num_slots = pool, num_slots

    @property
    def level(self) -> str:
        return self._pool.level

    @property
    def num_slots(self) -> int:
        return self._num_slots

    def warm(self) -> None:
        """Starts a slot if none is running; see `SlotPool.warm`."""
        self._pool.warm()

    def run(self, request: JSON) -> sandbox.SandboxResult:
        """Runs a request, and removes texts that look like keys from its result before it is stored."""
        result = self._pool.run(request)
        variables = {name: value for name, value in os.environ.items() if len(value) < _MAX_SECRET_CHARS}
        secrets = secret_scanner.find_secret_variables(variables)
        return replace(
            result,
            value=_hide_keys(result.value, secrets),
            failure=result.failure and secret_scanner.hide_keys(result.failure, secrets),
            output=secret_scanner.hide_keys(result.output, secrets),
        )

    def close(self) -> None:
        """Ends all slots; waiting requests fail. A second call does nothing."""
        self._pool.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def cpu_count() -> int:
    """Returns the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_DEFAULT_LIMITS = sandbox.Limits()
_MAX_SECRET_CHARS = 10_000


@dataclass(frozen=True, slots=True)
class ExecutorConfig:
    """Sandbox and executor settings of a run, independent of the evaluator.

    Attributes:
        limits: Limits of one evaluation.
        num_slots: Number of parallel evaluations.
        require: Weakest acceptable sandbox level; None: any level above L0.
        is_unsafe: Whether L0 is acceptable: the user allowed it, or no LLM writes the candidates.
        is_trusted: Whether candidates share warm processes without a sandbox; requires `is_unsafe`.
        permissions: Permissions from the task, in addition to those derived from the evaluator's source.
        scoring: `apart`: evaluators and programs in two sandboxes; `together`: in one; `auto`: apart where it works.
        ray_config: Ray settings; None: evaluate on this machine.
        ray_stats: Counters of the work on the cluster; None: evaluate on this machine.
    """

    limits: sandbox.Limits = _DEFAULT_LIMITS
    num_slots: int = 1
    require: str | None = None
    is_unsafe: bool = False
    is_trusted: bool = False
    permissions: sandbox.Permissions = sandbox.DEFAULT_PERMISSIONS
    scoring: str = "auto"
    ray_config: ray.RayConfig | None = None
    ray_stats: ray.RayStats | None = None

    @property
    def local(self) -> "ExecutorConfig":
        """The same settings on this machine, for jobs that need its files as they change."""
        return replace(self, ray_config=None)

    def open(
        self,
        make_job: sandbox.MakeJob,
        evaluator_source: str = "",
        folder: str | None = None,
        read_paths: Sequence[str] | None = None,
    ) -> LocalExecutor:
        """Opens the slots and starts one, to report a broken evaluator immediately.

        Args:
            make_job: Creates the job in every slot.
            evaluator_source: Source of the evaluator; it may need more permissions.
            folder: Folder of the evaluator.
            read_paths: Files of the folder that candidates may read; None: those that the source seems to need.

        Raises:
            SetupError: The sandbox is too weak, the job cannot be created, or the Ray cluster is missing or full.
        """
        permissions = self._extend_permissions(evaluator_source, folder)
        if read_paths is not None:
            permissions = replace(permissions, read_paths=(*self.permissions.read_paths, *read_paths))
        for path in () if self.is_trusted else permissions.read_paths:
            _require_readable(path)
        return _warm(LocalExecutor(self._open_pool(make_job, permissions, folder), self.num_slots))

    def open_apart(
        self, make_job: sandbox.MakeJob, make_program_job: sandbox.MakeJob, evaluator_source: str, folder: str | None
    ) -> LocalExecutor:
        """Opens slots with two sandboxes each: one for the evaluator, with its folder, and one for programs.

        Raises:
            SetupError: The sandbox is too weak, or a job cannot be created.
        """
        level = sandbox.get_level(sandbox.probe())
        if level == "L0" or (self.require is not None and level < self.require):
            raise errors.SetupError(f"This machine has sandbox level {level}.")
        permissions = self._extend_permissions(evaluator_source, folder)
        for path in permissions.read_paths:
            _require_readable(path)
        pool = sandbox.ApartSandbox(
            make_job,
            make_program_job,
            self.limits,
            self.num_slots,
            permissions=permissions,
            program_permissions=self.permissions,
        )
        return _warm(LocalExecutor(pool, self.num_slots))

    def open_scoring(
        self,
        make_job: sandbox.MakeJob,
        make_apart_jobs: tuple[sandbox.MakeJob, sandbox.MakeJob] | None,
        request: JSON,
        evaluator_source: str = "",
        folder: str | None = None,
        *,
        has_llm: bool = True,
    ) -> "OpenedScoring":
        """Opens slots for an evaluator of functions: apart from them if `scoring` or a dry run says so.

        Args:
            make_job: Creates the job of evaluator and function in one sandbox.
            make_apart_jobs: Create the job of the evaluator and that of the function; None: apart is not possible.
            request: Evaluates the initial function.
            evaluator_source: Source of the evaluator.
            folder: Folder of the evaluator.
            has_llm: Whether an LLM writes candidates. Mutators of syntax attack nothing, so `auto` means `together`.

        Raises:
            SetupError: As for `open`; or `apart` is required and does not work.
        """
        reason = self.find_obstacle() if make_apart_jobs else "the candidate is not a Python function"
        if self.scoring == "apart" and make_apart_jobs and not reason:
            return OpenedScoring(self.open_apart(*make_apart_jobs, evaluator_source, folder), True)
        if self.scoring == "apart":
            raise errors.SetupError(f"Scoring apart is not possible: {reason}. Use --scoring together.")
        reason = reason or ("" if has_llm else "no LLM writes candidates")
        together = self.open(make_job, evaluator_source, folder)
        if self.scoring == "together" or make_apart_jobs is None or reason:
            return OpenedScoring(together, False, reason)
        try:
            with contextlib.ExitStack() as stack:
                apart = stack.enter_context(self.open_apart(*make_apart_jobs, evaluator_source, folder))
                reason = sandbox.compare_scoring(apart, together, request)
                if not reason:
                    stack.pop_all()
        except errors.SetupError as error:
            reason = f"apart, it does not load: {error}"
        except BaseException:
            together.close()
            raise
        if reason:
            return OpenedScoring(together, False, reason)
        together.close()
        return OpenedScoring(apart, True)

    def find_obstacle(self) -> str:
        """Returns the reason why scoring apart cannot work here; empty if a dry run may try it."""
        if self.ray_config is not None:
            return "the executor is ray"
        if self.is_trusted or sandbox.get_level(sandbox.probe()) == "L0":
            return "the sandbox is off or not available"
        return ""

    def _extend_permissions(self, evaluator_source: str, folder: str | None) -> sandbox.Permissions:
        requested = sandbox.permissions_from_source(evaluator_source, folder)
        return replace(
            self.permissions,
            may_fork=self.permissions.may_fork or requested.may_fork,
            programs=(*self.permissions.programs, *requested.programs),
            read_paths=(*self.permissions.read_paths, *requested.read_paths),
        )

    def _open_pool(self, make_job: sandbox.MakeJob, permissions: sandbox.Permissions, folder: str | None) -> SlotPool:
        if self.ray_config is not None:
            task_files = ray.TaskFiles.from_paths([*([folder] if folder else ()), *permissions.read_paths])
            actor_config = ray.ActorConfig(
                self.limits, self.require, self.is_unsafe, self.is_trusted, permissions, task_files
            )
            return ray.RaySlotPool(
                make_job, actor_config, self.ray_config, self.num_slots, self.ray_stats or ray.RayStats()
            )
        return sandbox.open(
            make_job,
            self.limits,
            self.num_slots,
            require=self.require,
            unsafe=self.is_unsafe,
            trusted=self.is_trusted,
            permissions=permissions,
        )


class OpenedScoring(NamedTuple):
    """Executor of an evaluator of functions.

    Attributes:
        executor: Runs the evaluator.
        is_apart: Whether the functions run in a sandbox of their own.
        reason: Why they do not, if `scoring` is `auto`.
    """

    executor: LocalExecutor
    is_apart: bool
    reason: str = ""


def _hide_keys(value: Any, secrets: Mapping[str, str]) -> Any:
    match value:
        case str():
            return secret_scanner.hide_keys(value, secrets)
        case dict():
            return {secret_scanner.hide_keys(name, secrets): _hide_keys(item, secrets) for name, item in value.items()}
        case list() if any(isinstance(item, str | dict | list) for item in value):
            return [_hide_keys(item, secrets) for item in value]
    return value


def _warm(executor: LocalExecutor) -> LocalExecutor:
    try:
        executor.warm()
    except BaseException:
        executor.close()
        raise
    return executor


def _require_readable(path: str) -> None:
    """Checks that a sandbox started by root, which runs as another user, can read a path.

    Raises:
        SetupError: Only root can read it.
    """
    if os.geteuid() == 0 and not os.stat(path).st_mode & stat.S_IROTH and not sandbox.probe().needs_user:
        raise errors.SetupError(
            f"Only root can read {path}, but the sandbox runs as another user. Run: chmod -R a+rX {path}"
        )

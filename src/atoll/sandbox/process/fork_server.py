"""The process that candidates are forked from: it makes the job, then locks itself in, then serves.

At L3 there are two of them: a keeper outside, which only waits, and the zygote as process 1 of its own namespace, with
whose end the kernel ends all that is in there.
"""

import contextlib
import fcntl
import json
import os
import pickle
import signal
import stat
import sys
from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple, NoReturn

from atoll.sandbox.limits import Limits
from atoll.sandbox.linux import landlock, root_filesystem, seccomp, system_calls
from atoll.sandbox.process import candidate_process, worker
from atoll.sandbox.process.supervisor import ChildSupervisor

_NUM_OWN_PROCESSES = (
    3  # processes of a user that are no candidate's: keeper, zygote and the spare that waits for the next one
)


class ForkServerSettings(NamedTuple):
    """What the parent says before anything else; plain data.

    Attributes:
        path: Where modules are looked for.
        place: An empty folder of our own: where to write at L2, what to build a root on at L3.
        level: How strong the jail must be; it is that or it does not start.
        user: Whether namespaces need one of the user.
        has_filter: Whether the kernel has seccomp; always at L2 and L3.
        limits: Fields of `Limits`.
        readable: Paths that may be read.
        startable: Paths of programs that may be started.
        may_start: Whether processes may be started at all.
        builds: Whether programs may be started that a candidate built in its folder.
        network: Whether the network is shared.
    """

    path: list[str]
    place: str
    level: str
    user: bool
    has_filter: bool
    limits: dict[str, Any]
    readable: list[str]
    startable: list[str]
    may_start: bool
    builds: bool
    network: bool


class ForkServer:
    """Becomes a jail, step by step, in the order in which that works."""

    def __init__(self, settings: ForkServerSettings) -> None:
        self._settings, self._limits = settings, Limits(**settings.limits)
        self._has_root = settings.level == "L3"
        self._scratch = root_filesystem.SCRATCH if self._has_root else settings.place
        self._uid = system_calls.unprivileged_user(os.getpid()) if os.geteuid() == 0 and not settings.user else None
        self._job: Callable[[Any], Any]
        self._null_fds: list[int] = []

    def load_job(self, packed_job: bytes | bytearray) -> str | None:
        """Makes the job, with all rights: it is trusted; returns why it cannot."""
        own_fds = _reserve_low_fds()
        try:
            self._job = pickle.loads(packed_job)()
        except BaseException as error:  # whatever it is, the parent tells the user
            return worker.describe(error)
        if (count := len(os.listdir("/proc/self/task"))) > 1:
            return f"it started {count - 1} threads, which a fork would lose; start them for each candidate instead"
        self._null_fds = [
            fd for fd, status in _list_open_fds().items() if fd not in own_fds and _is_writable_file(fd, status)
        ]
        return worker.describe_memory_shortage(self._limits.memory_mb)

    def isolate(self) -> None:
        """Locks this process in, for good.

        Raises:
            OSError: The kernel does not allow what this level needs.
        """
        if self._has_root:
            self._enter_root()
        elif self._uid is not None:
            self._try_switch_user()
        system_calls.adopt_orphans()
        process = self._make_process()
        if self._uid is not None:
            system_calls.switch_user(self._uid)
        system_calls.drop_privileges()
        if self._has_root and not os.access(os.__file__, os.R_OK):
            raise OSError(13, f"only its owner may read Python's own files in {os.path.dirname(os.__file__)}")
        _set_up_environment(self._scratch)
        _redirect_to_null(self._null_fds)
        self.supervisor = ChildSupervisor(process, is_pid_one=self._has_root, may_start=self._settings.may_start)

    def _enter_root(self) -> None:
        settings, limits = self._settings, self._limits
        owner = (os.geteuid(), os.getegid()) if self._uid is None else (self._uid, self._uid)
        plan_fields = (
            settings.place,
            settings.readable,
            limits.disk_mb,
            settings.network,
            settings.user,
            settings.builds,
        )
        plan = root_filesystem.RootPlan(*plan_fields, owner)
        root_filesystem.enter_namespaces(plan)
        if pid := os.fork():
            _wait_outside(pid)
        root_filesystem.build_root(plan)

    def _try_switch_user(self) -> None:
        """Finds out whether root can become somebody else, who can read neither a closed home nor what is below."""
        assert self._uid is not None
        os.chmod(os.path.dirname(self._scratch), 0o711)
        os.chown(self._scratch, self._uid, self._uid)
        if not system_calls.can_run_as(self._uid, self._scratch):
            os.chown(self._scratch, 0, 0)
            self._uid = None
            if self._settings.may_start:
                raise OSError(
                    1,
                    "root cannot become another user who reads Python's files, and without one nobody counts the "
                    "processes that this evaluator starts; run Atoll as an ordinary user",
                )

    def _make_process(self) -> candidate_process.CandidateProcess:
        settings = self._settings
        is_restricted = settings.level in ("L2", "L3")
        signals = settings.may_start and (self._has_root or landlock.get_abi() >= 6)
        rights = seccomp.Rights(self._has_root, settings.may_start, signals, self._has_root, settings.network)
        ruleset = landlock.Ruleset(self._make_rules(), network=settings.network) if is_restricted else None
        syscall_filter = seccomp.Filter(rights) if is_restricted or settings.has_filter else None
        has_own_user = self._uid is not None or (self._has_root and settings.user)
        return candidate_process.CandidateProcess(
            self._job,
            self._limits,
            self._scratch,
            ruleset,
            syscall_filter,
            self._compute_task_limit(has_own_user),
            self._null_fds,
        )

    def _make_rules(self) -> list[tuple[str, int]]:
        settings = self._settings
        read = landlock.READ | landlock.LIST
        rules = [(path, read) for path in (["/"] if self._has_root else settings.readable)]
        rules += [(path, read | landlock.EXECUTE) for path in settings.startable]
        rules += [(path, landlock.READ | landlock.WRITE) for path in root_filesystem.DEVICES]
        return [*rules, (self._scratch, landlock.SCRATCH_RIGHTS | (landlock.EXECUTE if settings.builds else 0))]

    def _compute_task_limit(self, has_own_user: bool) -> int | None:
        """Returns how many tasks our user may have; one that others share too is counted only where it must be."""
        task_limit = self._limits.num_processes + _NUM_OWN_PROCESSES
        if has_own_user:
            return task_limit
        return task_limit + _count_tasks(os.getuid()) if self._settings.may_start else None


def _wait_outside(pid: int) -> NoReturn:
    """Waits outside for process 1 of the namespace, and ends as it did."""
    os.closerange(0, 2**20)  # above all the channel, whose end tells the parent that the zygote died
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _set_up_environment(scratch: str) -> None:
    """Has everything that looks for a home or a folder for temporary files find the scratch folder."""
    os.environ |= {"HOME": scratch, "TMPDIR": scratch}
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # it was looked for before there was a jail
    os.chdir(scratch)
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_DFL)


def _reserve_low_fds() -> Container[int]:
    """Takes all low descriptors, so that no file of the job lies where a candidate's pipes go; returns what is open."""
    while (fd := os.open(os.devnull, os.O_RDONLY)) <= candidate_process.REQUEST_FD:
        pass
    os.close(fd)
    return _list_open_fds()


def _list_open_fds() -> dict[int, os.stat_result]:
    """Returns what is open, but for what it was listed with."""
    open_fds = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            open_fds[int(name)] = os.fstat(int(name))
    return open_fds


def _is_writable_file(fd: int, status: os.stat_result) -> bool:
    """Says whether a descriptor leads to a file that can be written to."""
    return stat.S_ISREG(status.st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _redirect_to_null(descriptors: Sequence[int]) -> None:
    """Has what the job still writes there go nowhere; were it closed, a candidate's next file would get it."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in descriptors:
        os.dup2(null, fd, inheritable=False)
    os.close(null)


def _count_tasks(uid: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def main(liveness_fd: int) -> NoReturn:
    """Serves until the parent goes; descriptor 0 is the channel, 1 takes what is printed."""
    worker.end_with_parent(liveness_fd)
    channel = worker.Channel(worker.make_private_fd(os.dup(0)))
    streams = (worker.make_private_fd(os.open(os.devnull, os.O_RDWR)), worker.make_private_fd(os.dup(1)))
    os.dup2(streams[0], 0)
    token, body = channel.receive()
    line, _, packed_job = body.partition(b"\n")
    settings = ForkServerSettings(**json.loads(line))
    sys.path[:] = settings.path
    server = ForkServer(settings)
    failure = server.load_job(packed_job)
    del body, packed_job
    for fd, source in enumerate((streams[0], streams[1], streams[1])):
        os.dup2(source, fd)  # whatever the job did to them
    if failure is None:
        try:
            server.isolate()
            server.supervisor.prepare()
        except OSError as error:
            failure = f"the jail {settings.level} cannot be entered: {error.strerror}"
    channel.send(token, worker.JobResult(failure).encode())
    if failure is not None:
        os._exit(1)
    server.supervisor.serve(channel)

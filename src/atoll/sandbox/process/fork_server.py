"""Fork server: creates the job, isolates itself, then forks a process for each candidate.

At L3 there are two processes. One waits outside. The fork server is process 1 of its own pid namespace; when it ends,
the kernel kills every process in the namespace.
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

NUM_OWN_PROCESSES = 3  # the outer process, the fork server, and the child that waits for the next candidate

# Every loaded module makes every fork slower (`threading` alone by half a millisecond), and the package `atoll.sandbox`
# loads all that the parent needs. So a stub replaces the package until a job uses more than its modules.
START_SCRIPT = """
import os, sys, types
sys.path.insert(0, sys.argv[2])
stub = sys.modules["atoll.sandbox"] = types.ModuleType("atoll.sandbox")
stub.__path__ = [sys.argv[3]]
def find(name):
    path = os.path.join(sys.argv[3], name)
    if os.path.exists(path + ".py") or os.path.isdir(path) or name.startswith("__"):
        raise AttributeError(name)
    if sys.modules.get("atoll.sandbox") is stub:
        del sys.modules["atoll.sandbox"]
    import atoll.sandbox as package
    return getattr(package, name)
from atoll.sandbox.process import fork_server
stub.__getattr__ = find
fork_server.main(int(sys.argv[1]))
"""


class ForkServerSettings(NamedTuple):
    """First message from the parent, as JSON.

    Attributes:
        path: The parent's `sys.path`.
        scratch: Empty folder: the scratch folder at L1 and L2, the mount point of the root filesystem at L3.
        level: Sandbox level; the fork server fails if it cannot reach it.
        needs_user: Whether namespaces need a user namespace.
        has_filter: Whether the kernel has seccomp; always at L2 and L3.
        limits: Fields of `Limits`.
        readable: Readable paths.
        startable: Paths of programs that candidates may start.
        may_start: Whether candidates may start processes.
        builds: Whether candidates may start programs that they built in the scratch folder.
        network: Whether the network is shared.
        link: Folder of the pipes to a program or an evaluator in another sandbox; empty: none.
    """

    path: list[str]
    scratch: str
    level: str
    needs_user: bool
    has_filter: bool
    limits: dict[str, Any]
    readable: list[str]
    startable: list[str]
    may_start: bool
    builds: bool
    network: bool
    link: str = ""


class ForkServer:
    """Loads the job, then isolates itself. The order of the steps matters: each may remove rights that others need.

    Its children, the candidates, also restrict their files and system calls (`candidate_process`).
    """

    def __init__(self, settings: ForkServerSettings) -> None:
        self._settings, self._limits = settings, Limits(**settings.limits)
        self._has_root = settings.level == "L3"
        self._scratch = root_filesystem.SCRATCH if self._has_root else settings.scratch
        self._uid = (
            system_calls.unprivileged_user(os.getpid()) if os.geteuid() == 0 and not settings.needs_user else None
        )
        self._job: Callable[[Any], Any]
        self._null_fds: list[int] = []

    def load_job(self, packed_job: bytes | bytearray) -> str | None:
        """Creates the job with all rights, because it is trusted; returns the failure."""
        own_fds = _reserve_low_fds()
        try:
            self._job = pickle.loads(packed_job)()
        except BaseException as error:  # the parent reports it
            return worker.describe(error)
        if (count := len(os.listdir("/proc/self/task"))) > 1:
            return f"it started {count - 1} threads, which a fork loses; start them for each candidate instead"
        self._null_fds = [
            fd for fd, status in _list_open_fds().items() if fd not in own_fds and _is_writable_file(fd, status)
        ]
        return worker.describe_memory_shortage(self._limits.memory_mb)

    def isolate(self) -> None:
        """Isolates this process, irreversibly.

        Raises:
            OSError: The kernel does not allow this level.
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
            raise OSError(13, f"only its owner can read the Python library in {os.path.dirname(os.__file__)}")
        _set_up_environment(self._scratch)
        _redirect_to_null(self._null_fds)
        self.supervisor = ChildSupervisor(process, is_pid_one=self._has_root, may_start=self._settings.may_start)

    def _enter_root(self) -> None:
        settings = self._settings
        owner = (os.geteuid(), os.getegid()) if self._uid is None else (self._uid, self._uid)
        plan = root_filesystem.RootPlan(
            mount_point=settings.scratch,
            readable=settings.readable,
            disk_mb=self._limits.disk_mb,
            network=settings.network,
            needs_user_namespace=settings.needs_user,
            can_execute=settings.builds,
            owner=owner,
        )
        root_filesystem.enter_namespaces(plan)
        if pid := os.fork():
            _wait_outside(pid)
        root_filesystem.build_root(plan)

    def _try_switch_user(self) -> None:
        """Keeps the user if another one could not read Python, e.g. in a closed home folder."""
        assert self._uid is not None
        os.chmod(os.path.dirname(self._scratch), 0o711)
        os.chown(self._scratch, self._uid, self._uid)
        if not system_calls.can_run_as(self._uid, self._scratch):
            os.chown(self._scratch, 0, 0)
            self._uid = None
            if self._settings.may_start:
                raise OSError(
                    1,
                    "root cannot become another user who can read Python's files; the processes that this evaluator "
                    "starts could not be limited. Run Atoll as an ordinary user",
                )

    def _make_process(self) -> candidate_process.CandidateProcess:
        settings = self._settings
        is_restricted = settings.level in ("L2", "L3")
        signals = settings.may_start and (self._has_root or landlock.get_abi() >= 6)
        rights = seccomp.Rights(self._has_root, settings.may_start, signals, self._has_root, settings.network)
        ruleset = landlock.Ruleset(self._make_rules(), network=settings.network) if is_restricted else None
        syscall_filter = seccomp.Filter(rights) if is_restricted or settings.has_filter else None
        has_own_user = self._uid is not None or (self._has_root and settings.needs_user)
        return candidate_process.CandidateProcess(
            self._job,
            self._limits,
            self._scratch,
            ruleset,
            syscall_filter,
            self._compute_task_limit(has_own_user),
            self._null_fds,
            is_visible=settings.level == "L2",
        )

    def _make_rules(self) -> list[tuple[str, int]]:
        settings = self._settings
        read = landlock.READ | landlock.LIST
        rules = [(path, read) for path in (["/"] if self._has_root else settings.readable)]
        rules += [(path, read | landlock.EXECUTE) for path in settings.startable]
        rules += [(path, landlock.READ | landlock.WRITE) for path in root_filesystem.DEVICES]
        rules += [(settings.link, landlock.READ | landlock.WRITE)] if settings.link else []
        return [*rules, (self._scratch, landlock.SCRATCH_RIGHTS | (landlock.EXECUTE if settings.builds else 0))]

    def _compute_task_limit(self, has_own_user: bool) -> int | None:
        """Returns the maximum number of tasks of our user; None: the user is shared, and candidates cannot fork."""
        task_limit = self._limits.num_processes + NUM_OWN_PROCESSES
        if has_own_user:
            return task_limit
        return task_limit + _count_tasks(os.getuid()) if self._settings.may_start else None


def _wait_outside(pid: int) -> NoReturn:
    """Waits for process 1 of the namespace and exits with its status."""
    os.closerange(0, 2**20)  # also the channel: its end tells the parent that the fork server died
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _set_up_environment(scratch: str) -> None:
    """Makes the scratch folder the home and the folder for temporary files; restores default signal handlers."""
    os.environ |= {"HOME": scratch, "TMPDIR": scratch}
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # cached before the isolation
    os.chdir(scratch)
    for signal_number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signal_number, signal.SIG_DFL)


def _reserve_low_fds() -> Container[int]:
    """Occupies all low descriptors, where the pipes of candidates go; returns the open descriptors."""
    while (fd := os.open(os.devnull, os.O_RDONLY)) <= candidate_process.REQUEST_FD:
        pass
    os.close(fd)
    return _list_open_fds()


def _list_open_fds() -> dict[int, os.stat_result]:
    """Returns the open descriptors and their status."""
    open_fds = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            open_fds[int(name)] = os.fstat(int(name))
    return open_fds


def _is_writable_file(fd: int, status: os.stat_result) -> bool:
    """Returns whether a descriptor is a writable regular file."""
    return stat.S_ISREG(status.st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _redirect_to_null(descriptors: Sequence[int]) -> None:
    """Redirects descriptors to /dev/null; if they were closed, a candidate's next file would get their output."""
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
    """Serves until the parent exits; descriptor 0 is the channel, 1 the output."""
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
        os.dup2(source, fd)  # the job may have changed them
    if failure is None:
        try:
            server.isolate()
            server.supervisor.prepare()
        except OSError as error:
            failure = f"sandbox level {settings.level} cannot be entered: {error.strerror}"
    channel.send(token, worker.JobResult(failure).encode())
    if failure is not None:
        os._exit(1)
    server.supervisor.serve(channel)

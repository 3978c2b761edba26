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

from atoll.sandbox import cell, kernel, landlock, privileges, root, seccomp, worker
from atoll.sandbox.limits import Limits
from atoll.sandbox.ward import Ward

_OURS = 3  # processes of a user that are no candidate's: keeper, zygote and the spare that waits for the next one


class Settings(NamedTuple):
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


class Zygote:
    """Becomes a jail, step by step, in the order in which that works."""

    def __init__(self, settings: Settings) -> None:
        self._settings, self._limits = settings, Limits(**settings.limits)
        self._has_root = settings.level == "L3"
        self._scratch = root.SCRATCH if self._has_root else settings.place
        self._uid = privileges.stranger(os.getpid()) if os.geteuid() == 0 and not settings.user else None
        self._job: Callable[[Any], Any]
        self._blank: list[int] = []

    def make(self, parcel: bytes | bytearray) -> str | None:
        """Makes the job, with all rights: it is trusted; returns why it cannot."""
        ours = _reserve()
        try:
            self._job = pickle.loads(parcel)()
        except BaseException as error:  # whatever it is, the parent tells the user
            return worker.told(error)
        if (count := len(os.listdir("/proc/self/task"))) > 1:
            return f"it started {count - 1} threads, which a fork would lose; start them for each candidate instead"
        self._blank = [fd for fd, status in _opened().items() if fd not in ours and _is_log(fd, status)]
        return worker.too_little(self._limits.memory_mb)

    def lock(self) -> None:
        """Locks this process in, for good.

        Raises:
            OSError: The kernel does not allow what this level needs.
        """
        if self._has_root:
            self._enter_root()
        elif self._uid is not None:
            self._move_out()
        kernel.adopt_orphans()
        made = self._cell()
        if self._uid is not None:
            privileges.become(self._uid)
        privileges.renounce()
        if self._has_root and not os.access(os.__file__, os.R_OK):
            raise OSError(13, f"only its owner may read Python's own files in {os.path.dirname(os.__file__)}")
        _settle(self._scratch)
        _divert(self._blank)
        self.ward = Ward(made, is_first=self._has_root, may_start=self._settings.may_start)

    def _enter_root(self) -> None:
        settings, limits = self._settings, self._limits
        owner = (os.geteuid(), os.getegid()) if self._uid is None else (self._uid, self._uid)
        facts = (settings.place, settings.readable, limits.disk_mb, settings.network, settings.user, settings.builds)
        plan = root.Plan(*facts, owner)
        root.leave_the_others(plan)
        if pid := os.fork():
            _keep(pid)
        root.build(plan)

    def _move_out(self) -> None:
        """Finds out whether root can become somebody else, who can read neither a closed home nor what is below."""
        assert self._uid is not None
        os.chmod(os.path.dirname(self._scratch), 0o711)
        os.chown(self._scratch, self._uid, self._uid)
        if not privileges.can_live_as(self._uid, self._scratch):
            os.chown(self._scratch, 0, 0)
            self._uid = None
            if self._settings.may_start:
                raise OSError(
                    1,
                    "root cannot become another user who reads Python's files, and without one nobody counts the "
                    "processes that this evaluator starts; run Atoll as an ordinary user",
                )

    def _cell(self) -> cell.Cell:
        settings = self._settings
        guarded = settings.level in ("L2", "L3")
        signals = settings.may_start and (self._has_root or landlock.abi() >= 6)
        rights = seccomp.Rights(self._has_root, settings.may_start, signals, self._has_root, settings.network)
        ruleset = landlock.Ruleset(self._rules(), network=settings.network) if guarded else None
        wanted = seccomp.Filter(rights) if guarded or settings.has_filter else None
        apart = self._uid is not None or (self._has_root and settings.user)
        return cell.Cell(self._job, self._limits, self._scratch, ruleset, wanted, self._num_tasks(apart), self._blank)

    def _rules(self) -> list[tuple[str, int]]:
        settings = self._settings
        read = landlock.READ | landlock.LIST
        rules = [(path, read) for path in (["/"] if self._has_root else settings.readable)]
        rules += [(path, read | landlock.EXECUTE) for path in settings.startable]
        rules += [(path, landlock.READ | landlock.WRITE) for path in root.DEVICES]
        return [*rules, (self._scratch, landlock.WORK | (landlock.EXECUTE if settings.builds else 0))]

    def _num_tasks(self, apart: bool) -> int | None:
        """Returns how many tasks our user may have; one that others share too is counted only where it must be."""
        most = self._limits.num_processes + _OURS
        if apart:
            return most
        return most + _tasks_of(os.getuid()) if self._settings.may_start else None


def _keep(pid: int) -> NoReturn:
    """Waits outside for process 1 of the namespace, and ends as it did."""
    os.closerange(0, 2**20)  # above all the channel, whose end tells the parent that the zygote died
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    os._exit(code if code >= 0 else 128 - code)


def _settle(scratch: str) -> None:
    """Has everything that looks for a home or a folder for temporary files find the scratch folder."""
    os.environ |= {"HOME": scratch, "TMPDIR": scratch}
    if "tempfile" in sys.modules:
        vars(sys.modules["tempfile"])["tempdir"] = None  # it was looked for before there was a jail
    os.chdir(scratch)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def _reserve() -> Container[int]:
    """Takes all low descriptors, so that no file of the job lies where a candidate's pipes go; returns what is open."""
    while (fd := os.open(os.devnull, os.O_RDONLY)) <= cell.REQUEST:
        pass
    os.close(fd)
    return _opened()


def _opened() -> dict[int, os.stat_result]:
    """Returns what is open, but for what it was listed with."""
    found = {}
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            found[int(name)] = os.fstat(int(name))
    return found


def _is_log(fd: int, status: os.stat_result) -> bool:
    """Says whether a descriptor leads to a file that can be written to."""
    return stat.S_ISREG(status.st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY


def _divert(descriptors: Sequence[int]) -> None:
    """Has what the job still writes there go nowhere; were it closed, a candidate's next file would get it."""
    null = os.open(os.devnull, os.O_RDWR)
    for fd in descriptors:
        os.dup2(null, fd, inheritable=False)
    os.close(null)


def _tasks_of(uid: int) -> int:
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat(f"/proc/{name}").st_uid == uid:
                count += len(os.listdir(f"/proc/{name}/task"))
        except OSError:
            continue
    return count


def main(life: int) -> NoReturn:
    """Serves until the parent goes; descriptor 0 is the channel, 1 takes what is printed."""
    worker.end_with_parent(life)
    channel = worker.Channel(worker.own(os.dup(0)))
    streams = (worker.own(os.open(os.devnull, os.O_RDWR)), worker.own(os.dup(1)))
    os.dup2(streams[0], 0)
    token, body = channel.receive()
    line, _, parcel = body.partition(b"\n")
    settings = Settings(**json.loads(line))
    sys.path[:] = settings.path
    zygote = Zygote(settings)
    failure = zygote.make(parcel)
    del body, parcel
    for fd, source in enumerate((streams[0], streams[1], streams[1])):
        os.dup2(source, fd)  # whatever the job did to them
    if failure is None:
        try:
            zygote.lock()
            zygote.ward.prepare()
        except OSError as error:
            failure = f"the jail {settings.level} cannot be entered: {error.strerror}"
    channel.send(token, worker.Verdict(failure).encode())
    if failure is not None:
        os._exit(1)
    zygote.ward.serve(channel)

"""System calls that the standard library lacks, and functions that drop privileges."""

import ctypes
import functools
import os
import sys
from collections.abc import Callable

from atoll.sandbox.linux import syscalls

NEW_MOUNTS, NEW_UTS, NEW_IPC = 0x20000, 0x4000000, 0x8000000
NEW_USER, NEW_PIDS, NEW_NET = 0x10000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEV, NO_EXEC, REMOUNT, BIND, RECURSIVE, PRIVATE = 1, 2, 4, 8, 32, 4096, 16384, 1 << 18

_AT_RECURSIVE = 0x8000
_DETACH = 2
_NO_NEW_PRIVS, _CHILD_SUBREAPER, _DEATH_SIGNAL, _DUMPABLE = 38, 36, 1, 4
_CAPABILITIES_3 = 0x20080522


@functools.cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@functools.cache
def _get_syscall_number(name: str) -> int:
    arch = syscalls.detect_arch()
    if arch is None:
        raise OSError(38, "the sandbox does not support this architecture")
    return syscalls.get_numbers(syscalls.SANDBOX_CALLS, arch=arch)[name]


def call(name: str, *args: object) -> int:
    """Makes a system call.

    Raises:
        OSError: The kernel refused the call; the message names it.
    """
    result: int = prepare_call(name, *args)()
    if result < 0:
        raise make_os_error(name)
    return result


def prepare_call(name: str, *args: object) -> Callable[[], int]:
    """Returns a prepared system call; preparing is most of its cost. A negative result is an error."""
    c_args = [ctypes.c_long(arg) if isinstance(arg, int) else arg for arg in args]
    return functools.partial(_libc().syscall, ctypes.c_long(_get_syscall_number(name)), *c_args)


def make_os_error(name: str) -> OSError:
    """Returns the error of the last call."""
    error = ctypes.get_errno()
    return OSError(error, f"{name}: {os.strerror(error)}")


def unshare(flags: int) -> None:
    call("unshare", flags)


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    call("mount", source.encode(), target.encode(), kind.encode(), flags, data.encode())


def set_mount(target: str, flags: int) -> None:
    """Adds flags to a mount and all mounts below it."""
    attributes = (ctypes.c_uint64 * 4)(flags, 0, 0, 0)  # to set, to clear, propagation, user namespace
    call("mount_setattr", -100, target.encode(), _AT_RECURSIVE, attributes, ctypes.sizeof(attributes))


def change_root(folder: str) -> None:
    """Makes a mount the root and unmounts the old root."""
    os.chdir(folder)
    call("pivot_root", b".", b".")
    call("umount2", b".", _DETACH)
    os.chdir("/")


def set_hostname(name: str) -> None:
    call("sethostname", name.encode(), len(name))


def forbid_new_privileges() -> None:
    """Prevents started programs from gaining privileges; Landlock and seccomp require it."""
    _prctl(_NO_NEW_PRIVS, 1)


def adopt_orphans() -> None:
    """Makes this process, instead of init, the new parent of orphaned descendants."""
    _prctl(_CHILD_SUBREAPER, 1)


def prepare_death_signal() -> Callable[[], int]:
    """Returns the call that makes the kernel kill its process when the thread that forked it ends."""
    return functools.partial(_libc().prctl, *(ctypes.c_ulong(arg) for arg in (_DEATH_SIGNAL, 9, 0, 0, 0)))


def hide_memory() -> None:
    """Prevents unprivileged processes from reading the memory of this one."""
    _prctl(_DUMPABLE, 0)


def show_memory() -> None:
    """Lets processes of the same user inspect this one."""
    _prctl(_DUMPABLE, 1)


def drop_capabilities() -> None:
    """Drops all capabilities, irreversibly."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_3, 0)
    call("capset", header, (ctypes.c_uint32 * 6)())


def _prctl(*args: int) -> None:
    if _libc().prctl(*(ctypes.c_ulong(arg) for arg in (*args, *(0,) * (5 - len(args))))):
        error = ctypes.get_errno()
        raise OSError(error, f"prctl {args[0]}: {os.strerror(error)}")


# Almost certainly unused. Each fork server gets its own user, so that the kernel counts its processes separately.
_FIRST_UNUSED_UID = 0x60000000
_FIRST_UNUSED_CONTAINER_UID = 60000  # where only 65536 users are mapped


def unprivileged_user(pid: int) -> int:
    """Returns an unused user id for the fork server `pid`, if Atoll runs as root."""
    try:
        with open("/proc/self/uid_map") as file:
            uid_limit = max(int(line.split()[0]) + int(line.split()[2]) for line in file)
    except (OSError, ValueError):
        uid_limit = 0
    return _FIRST_UNUSED_UID + pid if uid_limit > _FIRST_UNUSED_UID + pid else _FIRST_UNUSED_CONTAINER_UID + pid % 5000


def switch_user(uid: int) -> None:
    """Changes the user and group of this process; clears its other groups.

    Raises:
        OSError: Not permitted.
    """
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_privileges() -> None:
    """Drops all capabilities and prevents regaining them.

    Raises:
        OSError: Not permitted.
    """
    drop_capabilities()
    forbid_new_privileges()
    hide_memory()


def can_run_as(uid: int, *paths: str) -> bool:
    """Returns whether another user can read Python's library and these paths; checks it in a child."""
    pid = os.fork()
    if not pid:
        try:
            switch_user(uid)
            is_readable = all(os.access(path, os.R_OK) for path in (os.__file__, *paths))
            is_readable = is_readable and os.access(
                os.path.dirname(sys.modules["json"].__file__ or ""), os.R_OK | os.X_OK
            )
            os._exit(0 if is_readable else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0

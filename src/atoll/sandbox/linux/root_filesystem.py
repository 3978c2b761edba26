"""A root of its own: a tree in memory with what Python needs, read-only, and one folder to write in."""

import contextlib
import os
import stat
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from atoll.sandbox import job_pickle
from atoll.sandbox.linux import system_calls
from atoll.sandbox.permissions import BUILT_PROGRAMS, Permissions

SCRATCH = "/atoll-scratch"  # where nobody has a task or a Python of his own
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_NAMESPACES = system_calls.NEW_MOUNTS | system_calls.NEW_PIDS | system_calls.NEW_IPC | system_calls.NEW_UTS
_MAX_FILES = 20_000


class RootPlan(NamedTuple):
    """What the root is made of.

    Attributes:
        place: An empty folder to build it on; nobody outside sees what is built there.
        readable: Files and folders that keep their place in it.
        disk_mb: How much can be written, in MiB.
        network: Whether the network is shared with the outside.
        user: Whether it needs a user namespace: without privileges there are no others.
        starts: Whether what was written may be started as a program.
        owner: User and group to whom the folder to write in belongs.
    """

    mount_point: str
    readable: Sequence[str]
    disk_mb: int
    network: bool
    needs_user_namespace: bool
    can_execute: bool
    owner: tuple[int, int]


def enter_namespaces(plan: RootPlan) -> None:
    """Moves this process, which must have one thread, into namespaces of its own; the next child is process 1 there.

    Raises:
        OSError: The kernel does not allow it.
    """
    uid, gid = os.geteuid(), os.getegid()
    network_flag = 0 if plan.network else system_calls.NEW_NET
    system_calls.unshare(_NAMESPACES | network_flag | (system_calls.NEW_USER if plan.needs_user_namespace else 0))
    if plan.needs_user_namespace:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    system_calls.set_hostname("jail")


def build_root(plan: RootPlan) -> None:
    """Makes the root and moves there, for good.

    Raises:
        OSError: The kernel does not allow it.
    """
    root_path = plan.mount_point
    system_calls.mount("none", "/", "", system_calls.RECURSIVE | system_calls.PRIVATE)
    system_calls.mount("tmpfs", root_path, "tmpfs", system_calls.NO_SUID | system_calls.NO_DEV, "mode=0755,size=4m")
    for path in plan.readable:
        _bind_read_only(path, root_path)
    for path in DEVICES:
        _bind(path, root_path + path, system_calls.READ_ONLY | system_calls.NO_SUID | system_calls.NO_EXEC)
    os.symlink(SCRATCH, f"{root_path}/dev/shm")
    _make_scratch(root_path + SCRATCH, plan)
    with contextlib.suppress(FileExistsError):  # something below it is shown
        os.symlink(SCRATCH, f"{root_path}/tmp")
    system_calls.mount(
        "none",
        root_path,
        "",
        system_calls.REMOUNT | system_calls.BIND | system_calls.READ_ONLY | system_calls.NO_SUID | system_calls.NO_DEV,
    )
    system_calls.change_root(root_path)


def _make_scratch(folder: str, plan: RootPlan) -> None:
    os.makedirs(folder, exist_ok=True)
    flags = system_calls.NO_SUID | system_calls.NO_DEV | (0 if plan.can_execute else system_calls.NO_EXEC)
    uid, gid = plan.owner
    data = f"mode=0700,size={plan.disk_mb}m,nr_inodes={_MAX_FILES},uid={uid},gid={gid}"
    system_calls.mount("tmpfs", folder, "tmpfs", flags, data)


def _bind_read_only(path: str, root_path: str) -> None:
    """Puts a file or folder at its place, read-only; a link stays one where what it leads to is shown too."""
    if os.path.islink(path) and stat.S_ISDIR(os.stat(path).st_mode):
        os.makedirs(os.path.dirname(root_path + path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(os.readlink(path), root_path + path)
    else:
        _bind(
            os.path.realpath(path),
            root_path + path,
            system_calls.READ_ONLY | system_calls.NO_SUID | system_calls.NO_DEV,
        )


def _bind(source: str, target: str, flags: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    system_calls.mount(source, target, "", system_calls.BIND | system_calls.RECURSIVE)
    system_calls.set_mount(target, flags)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


_SYSTEM_FOLDERS = ("/lib", "/lib64", "/lib32", "/usr/lib", "/usr/lib64", "/usr/lib32")
_SYSTEM_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_NETWORK_FILES = ("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/ssl", "/usr/share/ca-certificates")
_LOADERS = ("/lib64/ld-linux-x86-64.so.2", "/lib/ld-linux-aarch64.so.1", "/lib/ld-musl-x86_64.so.1")
_ATOLL_FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PACKAGES_FOLDER = os.path.dirname(_ATOLL_FOLDER)  # where Atoll itself is found; a checkout need not be installed


class ReadablePaths(NamedTuple):
    """Paths by what may be done with them; lists, as they travel to the zygote as JSON."""

    readable: list[str]
    startable: list[str]


def find_readable_paths(permissions: Permissions) -> ReadablePaths:
    """Returns what there is on this machine, outermost folders only."""
    startable = [
        *(_iter_python_executables() if permissions.may_fork else ()),
        *(path for path in permissions.programs if path != BUILT_PROGRAMS),
    ]
    if permissions.may_start:
        startable += [*_LOADERS, *(os.path.realpath(path) for path in (*startable, *_LOADERS))]
    paths = {*_iter_python_paths(), *_SYSTEM_FOLDERS, *_SYSTEM_FILES, *permissions.read_paths, *startable}
    paths |= set(_NETWORK_FILES if permissions.network else ())
    existing = sorted(os.path.abspath(path) for path in paths if os.path.exists(path))
    # A link keeps its place, even below a folder that is there.
    outermost = [path for path in existing if not any(path != other and _is_below(path, other) for other in existing)]
    return ReadablePaths(outermost, sorted({path for path in startable if os.path.exists(path)}))


def _iter_python_paths() -> Iterator[str]:
    for prefix in {sys.prefix, sys.exec_prefix, sys.base_prefix, sys.base_exec_prefix}:
        yield from (os.path.join(prefix, name) for name in ("lib", "lib64"))
    yield os.path.join(sys.prefix, "pyvenv.cfg")
    yield _ATOLL_FOLDER
    yield from (path for path in sys.path if job_pickle.contains_packages(path))
    yield from (path for path in os.environ.get("LD_LIBRARY_PATH", "").split(":") if path)


def _iter_python_executables() -> Iterator[str]:
    """Returns this Python by all names that evaluators start it by."""
    yield from {sys.executable, getattr(sys, "_base_executable", sys.executable)}
    aliases = (os.path.join(os.path.dirname(sys.executable), name) for name in ("python", "python3"))
    yield from (path for path in aliases if os.path.exists(path) and os.path.samefile(path, sys.executable))


def _is_below(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip("/") + "/")

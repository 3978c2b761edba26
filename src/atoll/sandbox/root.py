"""A root of its own: a tree in memory with what Python needs, read-only, and one folder to write in."""

import contextlib
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from atoll.sandbox import kernel

SCRATCH = "/atoll-scratch"  # where nobody has a task or a Python of his own
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_NAMESPACES = kernel.NEW_MOUNTS | kernel.NEW_PIDS | kernel.NEW_IPC | kernel.NEW_UTS
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
    network_flag = 0 if plan.network else kernel.NEW_NET
    kernel.unshare(_NAMESPACES | network_flag | (kernel.NEW_USER if plan.needs_user_namespace else 0))
    if plan.needs_user_namespace:
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    kernel.set_hostname("jail")


def build_root(plan: RootPlan) -> None:
    """Makes the root and moves there, for good.

    Raises:
        OSError: The kernel does not allow it.
    """
    root_path = plan.mount_point
    kernel.mount("none", "/", "", kernel.RECURSIVE | kernel.PRIVATE)
    kernel.mount("tmpfs", root_path, "tmpfs", kernel.NO_SUID | kernel.NO_DEV, "mode=0755,size=4m")
    for path in plan.readable:
        _bind_read_only(path, root_path)
    for path in DEVICES:
        _bind(path, root_path + path, kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_EXEC)
    os.symlink(SCRATCH, f"{root_path}/dev/shm")
    _make_scratch(root_path + SCRATCH, plan)
    with contextlib.suppress(FileExistsError):  # something below it is shown
        os.symlink(SCRATCH, f"{root_path}/tmp")
    kernel.mount("none", root_path, "", kernel.REMOUNT | kernel.BIND | kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEV)
    kernel.change_root(root_path)


def _make_scratch(folder: str, plan: RootPlan) -> None:
    os.makedirs(folder, exist_ok=True)
    flags = kernel.NO_SUID | kernel.NO_DEV | (0 if plan.can_execute else kernel.NO_EXEC)
    uid, gid = plan.owner
    data = f"mode=0700,size={plan.disk_mb}m,nr_inodes={_MAX_FILES},uid={uid},gid={gid}"
    kernel.mount("tmpfs", folder, "tmpfs", flags, data)


def _bind_read_only(path: str, root_path: str) -> None:
    """Puts a file or folder at its place, read-only; a link stays one where what it leads to is shown too."""
    if os.path.islink(path) and stat.S_ISDIR(os.stat(path).st_mode):
        os.makedirs(os.path.dirname(root_path + path), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.symlink(os.readlink(path), root_path + path)
    else:
        _bind(os.path.realpath(path), root_path + path, kernel.READ_ONLY | kernel.NO_SUID | kernel.NO_DEV)


def _bind(source: str, target: str, flags: int) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    kernel.mount(source, target, "", kernel.BIND | kernel.RECURSIVE)
    kernel.set_mount(target, flags)


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)

"""Private root filesystem in memory: the paths that Python needs, read-only, and one writable scratch folder."""

import contextlib
import os
import stat
from collections.abc import Sequence
from typing import NamedTuple

from atoll.sandbox.linux import system_calls

SCRATCH = "/atoll-scratch"  # a path that neither a task nor a Python installation has
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_NAMESPACES = system_calls.NEW_MOUNTS | system_calls.NEW_PIDS | system_calls.NEW_IPC | system_calls.NEW_UTS
_MAX_FILES = 20_000


class RootPlan(NamedTuple):
    """Content of the root filesystem.

    Attributes:
        mount_point: Empty folder to mount it on; the mount is invisible outside.
        readable: Files and folders that appear in it under the same path.
        disk_mb: Size of the scratch folder in MiB.
        network: Whether to share the network.
        needs_user_namespace: Whether the process is unprivileged; then the other namespaces need a user namespace.
        can_execute: Whether programs in the scratch folder can be started.
        owner: User and group of the scratch folder.
    """

    mount_point: str
    readable: Sequence[str]
    disk_mb: int
    network: bool
    needs_user_namespace: bool
    can_execute: bool
    owner: tuple[int, int]


def enter_namespaces(plan: RootPlan) -> None:
    """Moves this single-threaded process into new namespaces; its next child is process 1 there.

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
    system_calls.set_hostname("sandbox")


def build_root(plan: RootPlan) -> None:
    """Builds the root filesystem and makes it the root of this process, irreversibly.

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
    with contextlib.suppress(FileExistsError):  # a readable path lies in /tmp
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
    """Mounts a file or folder at its path, read-only; a link to a folder stays a link."""
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

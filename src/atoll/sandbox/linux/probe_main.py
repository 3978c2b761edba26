"""Probes the features of this machine's kernel, each in its own child process."""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from typing import NoReturn

from atoll.sandbox.levels import Probe
from atoll.sandbox.linux import landlock, root_filesystem, seccomp, system_calls
from atoll.sandbox.permissions import DEFAULT_PERMISSIONS, find_readable_paths

_SYSCTL_ADVICE = {
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "run `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give this Python an AppArmor profile "
        "that allows userns",
    ),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "run `sudo sysctl -w kernel.unprivileged_userns_clone=1`"),
    "/proc/sys/user/max_user_namespaces": ("0", "run `sudo sysctl -w user.max_user_namespaces=10000`"),
}
_CONTAINER_ADVICE = (
    "allow this user to create namespaces; start a container with `--security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined` (Docker), or with the capability SYS_ADMIN"
)


def main() -> None:
    """Prints the probe as JSON."""
    sys.stdout.write(json.dumps(asdict(run_probe())))


def run_probe() -> Probe:
    """Probes all features in children of this process, which must be single-threaded."""
    with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
        needs_user = os.geteuid() != 0
        namespace_error = _try_in_child(lambda: _try_namespaces(folder, needs_user=needs_user))
        if namespace_error and not needs_user:  # root in a container often lacks capabilities, but has user namespaces
            needs_user = True
            namespace_error = _try_in_child(lambda: _try_namespaces(folder, needs_user=True)) and namespace_error
    return Probe(
        namespaces=namespace_error,
        needs_user=needs_user,
        landlock=_try_in_child(_try_landlock),
        landlock_abi=landlock.get_abi(),
        seccomp=_try_in_child(_try_seccomp),
        forks=_try_in_child(_try_forks),
        advice=_find_advice() if namespace_error else "",
    )


def _try_in_child(check: Callable[[], None]) -> str:
    """Runs a check in a child; returns its error, or an empty text."""
    read_fd, write_fd = os.pipe()
    pid = os.fork()
    if not pid:
        _report_failure(check, write_fd)
    os.close(write_fd)
    with open(read_fd, "rb") as file:
        message = file.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    return message or ("" if status == 0 else f"the check ended with wait status {status}")


def _report_failure(check: Callable[[], None], write_fd: int) -> NoReturn:
    try:
        check()
        os._exit(0)
    except OSError as error:
        os.write(write_fd, (error.strerror or str(error)).encode())
    except BaseException as error:
        os.write(write_fd, f"{type(error).__name__}: {error}".encode())
    os._exit(1)


def _try_namespaces(folder: str, *, needs_user: bool) -> None:
    """Builds a root filesystem, as a fork server does, and checks it."""
    uid = os.geteuid() if needs_user else system_calls.unprivileged_user(os.getpid())
    owner = (uid, os.getegid() if needs_user else uid)
    readable = find_readable_paths(DEFAULT_PERMISSIONS).readable
    plan = root_filesystem.RootPlan(folder, readable, 1, False, needs_user, False, owner)
    root_filesystem.enter_namespaces(plan)
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    root_filesystem.build_root(plan)
    if not needs_user:
        system_calls.switch_user(uid)
    system_calls.drop_privileges()
    with open(os.path.join(root_filesystem.SCRATCH, "file"), "w") as file:
        file.write("here")
    if os.getpid() != 1 or os.path.exists("/etc/passwd") or not os.access(os.__file__, os.R_OK):
        raise OSError(1, "the root filesystem is not the one that was built")


def _try_landlock() -> None:
    system_calls.drop_privileges()
    landlock.Ruleset([]).apply()
    try:
        os.close(os.open(os.__file__, os.O_RDONLY))
    except PermissionError:
        return
    raise OSError(1, "the kernel accepts the restriction but does not enforce it")


def _try_seccomp() -> None:
    system_calls.drop_privileges()
    syscall_filter = seccomp.Filter(seccomp.Rights())
    syscall_filter.apply_to_server()
    syscall_filter.apply(os.getpid())
    try:
        socket.socket().close()
    except PermissionError:
        return
    raise OSError(1, "the kernel accepts the restriction but does not enforce it")


def _try_forks() -> None:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.close(os.pidfd_open(pid))
    os.waitpid(pid, 0)


def _find_advice() -> str:
    for path, (blocking_value, advice) in _SYSCTL_ADVICE.items():
        try:
            with open(path) as file:
                if file.read().strip() == blocking_value:
                    return advice
        except OSError:
            continue
    return _CONTAINER_ADVICE

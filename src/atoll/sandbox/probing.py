"""Tries what this machine's kernel allows, each thing in a child that is thrown away."""

import json
import os
import socket
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from typing import NoReturn

from atoll.sandbox import landlock, privileges, root, seccomp, shelves
from atoll.sandbox.levels import Probe
from atoll.sandbox.profiles import NARROW

_SWITCHES = {
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "run `sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`, or give this Python an AppArmor profile "
        "that allows userns",
    ),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "run `sudo sysctl -w kernel.unprivileged_userns_clone=1`"),
    "/proc/sys/user/max_user_namespaces": ("0", "run `sudo sysctl -w user.max_user_namespaces=10000`"),
}
_CONTAINER = (
    "let this user make namespaces; in a container, start it with `--security-opt seccomp=unconfined --security-opt "
    "apparmor=unconfined` (Docker), or with the capability SYS_ADMIN"
)


def main() -> None:
    """Prints a probe as JSON."""
    sys.stdout.write(json.dumps(asdict(tried())))


def tried() -> Probe:
    """Tries everything in children of this process, which must have one thread."""
    with tempfile.TemporaryDirectory(prefix="atoll-") as folder:
        is_root = os.geteuid() == 0
        failed = _attempt(lambda: _try_namespaces(folder, user=not is_root))
        needs_user = not is_root
        if failed and is_root:  # root in a container often lacks what it takes, and has user namespaces
            needs_user, failed = True, _attempt(lambda: _try_namespaces(folder, user=True)) and failed
    return Probe(
        namespaces=failed,
        needs_user=needs_user,
        landlock=_attempt(_try_landlock),
        landlock_abi=landlock.abi(),
        seccomp=_attempt(_try_seccomp),
        forks=_attempt(_try_forks),
        advice=_advice() if failed else "",
    )


def _attempt(trial: Callable[[], None]) -> str:
    """Runs a trial in a child; returns what went wrong."""
    told, tells = os.pipe()
    pid = os.fork()
    if not pid:
        _tell(trial, tells)
    os.close(tells)
    with open(told, "rb") as file:
        said = file.read().decode(errors="replace")
    _, status = os.waitpid(pid, 0)
    return said or ("" if status == 0 else f"it ended with wait status {status}")


def _tell(trial: Callable[[], None], tells: int) -> NoReturn:
    try:
        trial()
        os._exit(0)
    except OSError as error:
        os.write(tells, (error.strerror or str(error)).encode())
    except BaseException as error:
        os.write(tells, f"{type(error).__name__}: {error}".encode())
    os._exit(1)


def _try_namespaces(folder: str, *, user: bool) -> None:
    """Builds a whole root, as a zygote does, and looks around in it."""
    uid = os.geteuid() if user else privileges.stranger(os.getpid())
    owner = (uid, os.getegid() if user else uid)
    plan = root.Plan(folder, shelves.of(NARROW).readable, 1, False, user, False, owner)
    root.leave_the_others(plan)
    if pid := os.fork():
        _, status = os.waitpid(pid, 0)
        os._exit(os.waitstatus_to_exitcode(status) & 0xFF)
    root.build(plan)
    if not user:
        privileges.become(uid)
    privileges.renounce()
    with open(os.path.join(root.SCRATCH, "file"), "w") as file:
        file.write("here")
    if os.getpid() != 1 or os.path.exists("/etc/passwd") or not os.access(os.__file__, os.R_OK):
        raise OSError(1, "the root that was built is not the one that was asked for")


def _try_landlock() -> None:
    privileges.renounce()
    landlock.Ruleset([]).enter()
    try:
        os.close(os.open(os.__file__, os.O_RDONLY))
    except PermissionError:
        return
    raise OSError(1, "it was entered and does not hold")


def _try_seccomp() -> None:
    privileges.renounce()
    seccomp.Filter(seccomp.Rights()).enter(os.getpid())
    try:
        socket.socket().close()
    except PermissionError:
        return
    raise OSError(1, "it was entered and does not hold")


def _try_forks() -> None:
    pid = os.fork()
    if not pid:
        os._exit(0)
    os.close(os.pidfd_open(pid))
    os.waitpid(pid, 0)


def _advice() -> str:
    for path, (bad, advice) in _SWITCHES.items():
        try:
            with open(path) as file:
                if file.read().strip() == bad:
                    return advice
        except OSError:
            continue
    return _CONTAINER

"""Giving up privileges, really: no capability, no new ones, and for root another user."""

import os
import sys

from atoll.sandbox import kernel

# As good as certainly nobody's, and one for each zygote, so that the kernel counts the processes of each alone.
_FIRST_UNUSED_UID = 0x60000000
_FIRST_UNUSED_CONTAINER_UID = 60000  # where only 65536 users are mapped


def unprivileged_user(pid: int) -> int:
    """Returns the number of a user for the zygote with this process number, to be used by root."""
    try:
        with open("/proc/self/uid_map") as file:
            uid_limit = max(int(line.split()[0]) + int(line.split()[2]) for line in file)
    except (OSError, ValueError):
        uid_limit = 0
    return _FIRST_UNUSED_UID + pid if uid_limit > _FIRST_UNUSED_UID + pid else _FIRST_UNUSED_CONTAINER_UID + pid % 5000


def switch_user(uid: int) -> None:
    """Makes this process another user's, in no group of anybody.

    Raises:
        OSError: It may not.
    """
    os.setgroups([])
    os.setresgid(uid, uid, uid)
    os.setresuid(uid, uid, uid)


def drop_privileges() -> None:
    """Gives up all capabilities, and the way back to them.

    Raises:
        OSError: It may not.
    """
    kernel.drop_capabilities()
    kernel.forbid_new_privileges()
    kernel.hide_memory()


def can_run_as(uid: int, *paths: str) -> bool:
    """Says whether another user could read Python's library and these paths; tries it in a child."""
    pid = os.fork()
    if not pid:
        try:
            switch_user(uid)
            is_readable = all(os.access(path, os.R_OK) for path in (os.__file__, *paths))
            is_readable = is_readable and os.access(os.path.dirname(sys.modules["json"].__file__ or ""), os.R_OK | os.X_OK)
            os._exit(0 if is_readable else 1)
        except BaseException:
            os._exit(1)
    return os.waitpid(pid, 0)[1] == 0

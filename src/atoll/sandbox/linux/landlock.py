"""Landlock: restricts the files that a process may open, whatever its user."""

import ctypes
import os
from collections.abc import Sequence

from atoll.sandbox.linux import system_calls
from atoll.sandbox.process import worker

EXECUTE, WRITE, READ, LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG, _MAKE_SYM = 1 << 4, 1 << 5, 1 << 7, 1 << 8, 1 << 12
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_FILE_RIGHTS = EXECUTE | WRITE | READ | _TRUNCATE
# No devices, no sockets, no named pipes.
SCRATCH_RIGHTS = (
    WRITE | READ | LIST | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_SYM | _REFER | _TRUNCATE
)

# ABI -> number of file rights: 13, then moving between folders, truncating, ioctl of devices.
_NUM_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
_NUM_RIGHTS_LATEST = 16
_TCP = 0b11  # bind and connect, from ABI 4
_SCOPES = 0b11  # abstract sockets and signals, from ABI 6
_VERSION = 1
_PATH_BENEATH = 1


class _PathRule(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def get_abi() -> int:
    """Returns the Landlock version of the kernel; 0: none."""
    try:
        return system_calls.call("landlock_create_ruleset", None, 0, _VERSION)
    except OSError:
        return 0


class Ruleset:
    """Denies every file that is not listed; created once and applied in every candidate process.

    Args:
        rules: Paths and their rights, which include everything below; missing paths are skipped.
        network: Whether to allow TCP.

    Raises:
        OSError: The kernel does not have Landlock.
    """

    def __init__(self, rules: Sequence[tuple[str, int]], *, network: bool = False) -> None:
        version = system_calls.call("landlock_create_ruleset", None, 0, _VERSION)
        self._handled = (1 << _NUM_RIGHTS.get(version, _NUM_RIGHTS_LATEST)) - 1
        tcp, scopes = _TCP if version >= 4 and not network else 0, _SCOPES if version >= 6 else 0
        size = 8 if version < 4 else 16 if version < 6 else 24
        attributes = (ctypes.c_uint64 * 3)(self._handled, tcp, scopes)
        self.fd = worker.make_private_fd(system_calls.call("landlock_create_ruleset", attributes, size, 0))
        for path, rights in rules:
            self._add(path, rights)
        self._restrict_self = system_calls.prepare_call("landlock_restrict_self", self.fd, 0)

    def apply(self) -> None:
        """Restricts this process and its children, irreversibly.

        Raises:
            OSError: The kernel refused the call.
        """
        if self._restrict_self() < 0:
            raise system_calls.make_os_error("landlock_restrict_self")

    def _add(self, path: str, rights: int) -> None:
        try:
            path_fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            rights &= self._handled & (-1 if os.path.isdir(path) else _FILE_RIGHTS)
            system_calls.call("landlock_add_rule", self.fd, _PATH_BENEATH, ctypes.byref(_PathRule(rights, path_fd)), 0)
        finally:
            os.close(path_fd)

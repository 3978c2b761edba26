"""Who works on a run's workspaces: one process, and the calls of git that outlive it for a moment."""

import fcntl
import os
import time
from pathlib import Path

from atoll.mind.workspace.names import WorkspaceError

_POLL_SECONDS = 0.02


class WorkspaceLock:
    """Holds a folder by a lock that the kernel drops with the last process that has it, however that ends.

    Calls of git inherit the lock. So whoever comes after a `kill -9` waits until the last of them is done.

    Args:
        folder: What is claimed; made if it is not there.
        seconds: How long to wait for whoever has it.

    Raises:
        Refused: Somebody still has it.
    """

    def __init__(self, folder: Path, timeout_seconds: float = 10.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + timeout_seconds
        while not self._try_lock():
            if time.monotonic() > deadline:
                os.close(self.fd)
                raise WorkspaceError(f"Another process works on the run {folder.name!r} in {folder}: stop it, or wait for it.")
            time.sleep(_POLL_SECONDS)

    def close(self) -> None:
        """Lets go; a second call does nothing."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

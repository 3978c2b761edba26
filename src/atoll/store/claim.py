"""The right to write a run in a file, which one process has at a time."""

import contextlib
import fcntl
import os
from threading import Lock
from types import TracebackType
from typing import Self

from atoll import errors

# A POSIX lock belongs to the process: it goes when the process goes, however that dies, and a forked child does not
# keep it. But it does not keep out a second claimant of the same process, so those are noted here.
_locked_keys: set[tuple[int, str, int]] = set()
_lock = Lock()


class FileRunLock:
    """Keeps other claimants of a run out until `release`, or until the process is gone.

    Held by a lock on a file beside the database. In memory there are no other processes, and no file.
    """

    def __init__(self, location: str, run_number: int, run_id: str, *, is_file: bool) -> None:
        self._key, self._path, self._run_id = (os.getpid(), location, run_number), f"{location}-claim-{run_number}", run_id
        self._file: int | None = None
        self._is_held = False
        with _lock:
            if self._key in _locked_keys:
                raise errors.Conflict(f"Run {run_id} is being written by this very process: let it end first.")
            if is_file:
                self._file = self._lock_file()
            _locked_keys.add(self._key)
            self._is_held = True

    def release(self) -> None:
        """Lets others claim the run; a second call does nothing."""
        with _lock:
            if not self._is_held:
                return
            self._is_held = False
            _locked_keys.discard(self._key)
            if self._file is not None:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._path)  # while it is locked: who has opened it meanwhile sees that it is gone
                os.close(self._file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def _lock_file(self) -> int:
        while True:
            try:
                file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
            except OSError as error:
                raise errors.SetupError(
                    f"Run {self._run_id} cannot be claimed: {self._path} must be yours to write."
                ) from error
            try:
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except (BlockingIOError, PermissionError) as error:
                owner = f"process {pid}" if (pid := os.pread(file, 20, 0).decode()) else "another process"
                os.close(file)
                raise errors.Conflict(f"Run {self._run_id} is being written by {owner}: let it end first.") from error
            if _is_same_file(file, self._path):
                os.truncate(file, 0)
                os.pwrite(file, str(os.getpid()).encode(), 0)
                return file
            os.close(file)  # its holder released it meanwhile: the file is no longer the one that others find


def _is_same_file(file: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(file), os.stat(path))
    except FileNotFoundError:
        return False


def find_lock_owner(location: str, run_number: int) -> int | None:
    """Returns the process that writes a run, or None."""
    if (os.getpid(), location, run_number) in _locked_keys:
        return os.getpid()  # known without looking: closing a file that we hold locked would drop the lock
    with contextlib.suppress(FileNotFoundError), open(f"{location}-claim-{run_number}", "rb") as file:
        pid = int(file.read() or 0)
        try:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)  # the file of one who was killed stays, unlocked
        except (BlockingIOError, PermissionError):
            return pid or None
    return None

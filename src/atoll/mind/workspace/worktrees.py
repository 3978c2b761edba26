"""Worktrees of a run: the pool, the lock of its workspaces, and the cleanup after a killed process."""

import contextlib
import fcntl
import os
import shutil
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from atoll.mind.workspace.git import WorkspaceError
from atoll.mind.workspace.repository import Repository


class WorktreePool:
    """Lends worktrees to worldlines.

    Creating and removing a worktree of 1,000 files takes most of a second. Switching one to another commit takes a few
    hundredths (bench/workspace.py). If more worldlines are open than worktrees exist, the longest idle one loses its
    worktree. Its branch and commit stay, and it gets a worktree again when it needs one.

    Args:
        repository: Repository of the worktrees.
        folder: Folder of the worktrees.
        run: Prefix of their names.
        max_worktrees: Maximal number; 0 for commits without files, in very large repositories.
    """

    def __init__(self, repository: Repository, folder: Path, run: str, max_worktrees: int) -> None:
        self._repository, self._folder, self._run, self._max_worktrees = repository, folder, run, max_worktrees
        self._condition = Condition()
        self._by_branch: OrderedDict[str, Path] = OrderedDict()
        self._busy: set[Path] = set()
        self._free: list[Path] = []
        self._num_created = 0
        self._checked_out: dict[Path, tuple[str, str]] = {}  # each written only by the thread that holds the worktree

    @property
    def is_enabled(self) -> bool:
        return self._max_worktrees > 0

    @contextmanager
    def checkout(self, branch: str, commit: str) -> Iterator[Path]:
        """Sets the worktree and the branch to a commit, and reserves the worktree meanwhile."""
        worktree = self._acquire(branch)
        try:
            if self._checked_out.get(worktree) != (branch, commit):
                self._checked_out.pop(worktree, None)
                options = ("-q", "-f", "--ignore-other-worktrees", "-B", branch)
                self._repository.git("checkout", *options, commit, "--", worktree=worktree)
                self._checked_out[worktree] = (branch, commit)
            yield worktree
        finally:
            with self._condition:
                self._busy.discard(worktree)
                self._condition.notify_all()

    def release(self, branch: str, commit: str) -> None:
        """Detaches the worktree of a branch. Its files stay until the next checkout."""
        with self._condition:
            worktree = self._by_branch.pop(branch, None)
        if worktree is None:
            return
        self._checked_out.pop(worktree, None)
        self._repository.git("update-ref", "--no-deref", "HEAD", commit, worktree=worktree)
        with self._condition:
            self._free.append(worktree)
            self._condition.notify_all()

    def close(self) -> None:
        """Removes all worktrees. No worktree may be in use."""
        with self._condition:
            worktrees, self._free = [*self._free, *self._by_branch.values()], []
            self._by_branch.clear()
        for worktree in worktrees:
            self._repository.git("worktree", "remove", "--force", "--force", str(worktree))

    def _acquire(self, branch: str) -> Path:
        with self._condition:
            while True:
                worktree = self._by_branch.get(branch) or self._take_any()
                if worktree is not None and worktree not in self._busy:
                    break
                self._condition.wait()
            self._by_branch[branch] = worktree
            self._by_branch.move_to_end(branch)
            self._busy.add(worktree)
        if not worktree.exists():
            self._create(worktree)
        return worktree

    def _take_any(self) -> Path | None:
        """Returns a free, a new, or the longest idle worktree; None if all are in use."""
        if self._free:
            return self._free.pop()
        if self._num_created < self._max_worktrees:
            self._num_created += 1
            return self._folder / f"atoll-{self._run}-{self._num_created}"
        idle_branch = next((branch for branch, worktree in self._by_branch.items() if worktree not in self._busy), None)
        return None if idle_branch is None else self._by_branch.pop(idle_branch)

    def _create(self, worktree: Path) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._repository.git("worktree", "add", "-q", "--force", "--detach", "--no-checkout", str(worktree), "HEAD")


_LOCK_POLL_SECONDS = 0.02


class WorkspaceLock:
    """Locks a folder. The kernel releases the lock with the last process that holds it.

    Git processes inherit the lock. After a `kill -9`, the next process waits until they have ended.

    Args:
        folder: Folder to lock; created if missing.
        timeout_seconds: Seconds to wait for the lock.

    Raises:
        WorkspaceError: Another process still holds the lock.
    """

    def __init__(self, folder: Path, timeout_seconds: float = 10.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.fd = os.open(folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        deadline = time.monotonic() + timeout_seconds
        while not self._try_lock():
            if time.monotonic() > deadline:
                os.close(self.fd)
                raise WorkspaceError(
                    f"Another process works on the run {folder.name!r} in {folder}. Stop it, or wait for it."
                )
            time.sleep(_LOCK_POLL_SECONDS)

    def close(self) -> None:
        """Releases the lock. Can be called twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _try_lock(self) -> bool:
        try:
            fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


_STALE_SECONDS = 2.0  # a git lock that exists longer than this is from a killed process
_POLL_SECONDS = 0.05


def remove_leftovers(repository: Repository, folder: Path, run: str) -> int:
    """Removes worktrees, branches, locks and temporary files of a run without a process. Returns their number.

    Archived and approved worldlines stay. The caller holds the run lock, so no git process of the run is alive.
    """
    num_removed = _drop_locks(repository, run)
    num_removed += _drop_worktrees(repository, folder / "desks", run)
    branches = repository.list_refs(f"refs/heads/atoll/{run}/")
    repository.update_refs((ref, None) for ref in branches)
    for path in (*folder.glob("*.tmp"), *folder.glob("*.new"), *folder.glob("*.lock")):
        path.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (folder / "desks").rmdir()
    return num_removed + len(branches)


def _drop_worktrees(repository: Repository, worktree_folder: Path, run: str) -> int:
    """Removes a run's worktrees, also incomplete ones that git does not list.

    `git worktree prune` would also remove the user's worktrees on a disk that is not mounted.
    """
    admin_folders = [
        admin_folder
        for admin_folder in _list_admin_folders(repository)
        if admin_folder.name.startswith(f"atoll-{run}-")
    ]
    records = repository.git.read_records("worktree", "list", "--porcelain", "-z")
    worktrees = {Path(record.partition(" ")[2]) for record in records if record.startswith("worktree ")}
    run_worktrees = {path for path in worktrees if path.parent == worktree_folder} | set(
        worktree_folder.glob("*") if worktree_folder.is_dir() else ()
    )
    for path in run_worktrees:
        if repository.git.run("worktree", "remove", "--force", "--force", str(path)).exit_code:
            shutil.rmtree(path, ignore_errors=True)
    for name in admin_folders:
        if name.is_dir():
            shutil.rmtree(name, ignore_errors=True)
    with contextlib.suppress(OSError):
        (repository.common_dir / "worktrees").rmdir()  # git also removes the empty folder
    return len(run_worktrees | set(admin_folders))


def _list_admin_folders(repository: Repository) -> Iterator[Path]:
    folder = repository.common_dir / "worktrees"
    yield from folder.iterdir() if folder.is_dir() else ()


def _drop_locks(repository: Repository, run: str) -> int:
    """Removes ref locks of git processes that were killed with the run."""
    run_locks = [
        path
        for ref_folder in (f"refs/heads/atoll/{run}", f"refs/atoll/{run}")
        for path in (repository.common_dir / ref_folder).rglob("*.lock")
    ]
    for path in run_locks:
        path.unlink(missing_ok=True)
    shared_locks = [repository.common_dir / name for name in ("packed-refs.lock", "packed-refs.new")]
    return len(run_locks) + sum(_drop_stale_lock(path) for path in shared_locks)


def _drop_stale_lock(path: Path) -> bool:
    """Removes a shared lock that exists longer than any git command holds it."""
    deadline = time.monotonic() + _STALE_SECONDS
    first_identity = _get_file_identity(path)
    while first_identity is not None and time.monotonic() < deadline:
        if _get_file_identity(path) != first_identity:
            return False  # a live process releases and takes it
        time.sleep(_POLL_SECONDS)
    if first_identity is None:
        return False
    path.unlink(missing_ok=True)
    return True


def _get_file_identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns

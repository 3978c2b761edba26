"""What a process that was killed left behind: worktrees, branches of unfinished forks, locks."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from atoll.mind.workspace.repository import Repository

_STALE_SECONDS = 2.0  # a lock of git's own that lives longer than this, beside a run that died, is that run's
_POLL_SECONDS = 0.05


def remove_leftovers(repository: Repository, folder: Path, run: str) -> int:
    """Removes the worktrees, branches, locks and drafts of a run that nobody works on; returns how many there were.

    What was archived or approved stays. Whoever calls holds the run's claim: no call of git of that run is alive.
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
    """Removes a run's worktrees: by git, and by hand those that were not even made.

    `git worktree prune` would do, but also to worktrees of the user's that lie on a disk that is away just now.
    """
    admin_folders = [admin_folder for admin_folder in _list_admin_folders(repository) if admin_folder.name.startswith(f"atoll-{run}-")]
    records = repository.git.read_records("worktree", "list", "--porcelain", "-z")
    worktrees = {Path(record.partition(" ")[2]) for record in records if record.startswith("worktree ")}
    run_worktrees = {path for path in worktrees if path.parent == worktree_folder} | set(worktree_folder.glob("*") if worktree_folder.is_dir() else ())
    for path in run_worktrees:
        if repository.git.run("worktree", "remove", "--force", "--force", str(path)).exit_code:
            shutil.rmtree(path, ignore_errors=True)
    for name in admin_folders:
        if name.is_dir():
            shutil.rmtree(name, ignore_errors=True)
    with contextlib.suppress(OSError):
        (repository.common_dir / "worktrees").rmdir()  # as git does when it removes the last
    return len(run_worktrees | set(admin_folders))


def _list_admin_folders(repository: Repository) -> Iterator[Path]:
    folder = repository.common_dir / "worktrees"
    yield from folder.iterdir() if folder.is_dir() else ()


def _drop_locks(repository: Repository, run: str) -> int:
    """Removes the locks of references that calls of git left which were killed with the run."""
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
    """Removes a lock that others use too once it has been there for longer than any of them takes."""
    deadline = time.monotonic() + _STALE_SECONDS
    first_identity = _get_file_identity(path)
    while first_identity is not None and time.monotonic() < deadline:
        if _get_file_identity(path) != first_identity:
            return False  # somebody alive lets go of it, and takes it again
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

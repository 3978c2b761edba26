"""What a process that was killed left behind: worktrees, branches of unfinished forks, locks."""

import contextlib
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from atoll.mind.workspace.repository import Repository

_STALE_SECONDS = 2.0  # a lock of git's own that lives longer than this, beside a run that died, is that run's
_LOOK_SECONDS = 0.05


def sweep(repository: Repository, folder: Path, run: str) -> int:
    """Removes the worktrees, branches, locks and drafts of a run that nobody works on; returns how many there were.

    What was archived or approved stays. Whoever calls holds the run's claim: no call of git of that run is alive.
    """
    found = _drop_locks(repository, run)
    found += _drop_worktrees(repository, folder / "desks", run)
    branches = repository.refs(f"refs/heads/atoll/{run}/")
    repository.move((ref, None) for ref in branches)
    for draft in (*folder.glob("*.tmp"), *folder.glob("*.new"), *folder.glob("*.lock")):
        draft.unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        (folder / "desks").rmdir()
    return found + len(branches)


def _drop_worktrees(repository: Repository, desks: Path, run: str) -> int:
    """Removes a run's worktrees: by git, and by hand those that were not even made.

    `git worktree prune` would do, but also to worktrees of the user's that lie on a disk that is away just now.
    """
    names = [name for name in _admin(repository) if name.name.startswith(f"atoll-{run}-")]
    told = repository.git.records("worktree", "list", "--porcelain", "-z")
    listed = {Path(each.partition(" ")[2]) for each in told if each.startswith("worktree ")}
    ours = {path for path in listed if path.parent == desks} | set(desks.glob("*") if desks.is_dir() else ())
    for path in ours:
        if repository.git.ask("worktree", "remove", "--force", "--force", str(path)).code:
            shutil.rmtree(path, ignore_errors=True)
    for name in names:
        if name.is_dir():
            shutil.rmtree(name, ignore_errors=True)
    with contextlib.suppress(OSError):
        (repository.common / "worktrees").rmdir()  # as git does when it removes the last
    return len(ours | set(names))


def _admin(repository: Repository) -> Iterator[Path]:
    folder = repository.common / "worktrees"
    yield from folder.iterdir() if folder.is_dir() else ()


def _drop_locks(repository: Repository, run: str) -> int:
    """Removes the locks of references that calls of git left which were killed with the run."""
    own = [
        path
        for place in (f"refs/heads/atoll/{run}", f"refs/atoll/{run}")
        for path in (repository.common / place).rglob("*.lock")
    ]
    for path in own:
        path.unlink(missing_ok=True)
    shared = [repository.common / name for name in ("packed-refs.lock", "packed-refs.new")]
    return len(own) + sum(_drop_stale(path) for path in shared)


def _drop_stale(path: Path) -> bool:
    """Removes a lock that others use too once it has been there for longer than any of them takes."""
    deadline = time.monotonic() + _STALE_SECONDS
    first = _identity(path)
    while first is not None and time.monotonic() < deadline:
        if _identity(path) != first:
            return False  # somebody alive lets go of it, and takes it again
        time.sleep(_LOOK_SECONDS)
    if first is None:
        return False
    path.unlink(missing_ok=True)
    return True


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns

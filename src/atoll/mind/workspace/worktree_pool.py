"""Pool of worktrees. Switching a worktree to another commit writes only the files that differ."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

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

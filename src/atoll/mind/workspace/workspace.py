"""Workspaces of one run in one repository: fork, write, compare, archive, approve, merge."""

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from atoll import identities
from atoll.mind.workspace import recovery
from atoll.mind.workspace.agent_context import Contexts
from atoll.mind.workspace.git_objects import GitObjects
from atoll.mind.workspace.merge import Approval, Approvals, ApprovedMerge
from atoll.mind.workspace.path_checks import WorkspaceError, check_name, check_path
from atoll.mind.workspace.recovery import WorkspaceLock
from atoll.mind.workspace.repository import FileChange, Repository
from atoll.mind.workspace.worktree_pool import WorktreePool

_OTHER_RUN_TIMEOUT_SECONDS = 0.0  # active runs are skipped at once

type Uncommitted = Literal["refuse", "ignore", "include"]


class Workspace:
    """Stores worldlines as commits of a repository. Each open one has a branch `atoll/RUN/ID`.

    The branch defines a worldline. Its worktree only shows that commit, so changed files there have no effect. Only
    `merge` changes the main worktree.

    Opening locks the run. It also removes what killed processes left of this and other inactive runs: worktrees,
    branches of unfinished forks, locks, interrupted merges.

    Args:
        folder: Top of the main worktree.
        run: Name of the run.
        author: Author of the worldlines, who cannot approve them.
        num_worktrees: Maximal number of worktrees; 0 for repositories too large for worktrees.
        uncommitted: Handling of uncommitted changes in the main worktree. `refuse` raises an error, because worldlines
            would lack them. `ignore` forks from the commit. `include` adds them to the base by a commit without a
            branch. None of the three changes the main worktree.
        lock_timeout_seconds: Seconds to wait for another process of the run.

    Raises:
        WorkspaceError: The repository cannot be used, the run is active in another process, or has uncommitted changes.
    """

    def __init__(
        self,
        folder: Path,
        run: str,
        *,
        author: str = "Atoll",
        num_worktrees: int = 2,
        uncommitted: Uncommitted = "refuse",
        lock_timeout_seconds: float = 10.0,
    ) -> None:
        self.run, self._author = check_name(run, "run"), author
        identities.normalize_name(author)  # an ambiguous name could approve its own work
        root = Repository(folder).common_dir / "atoll"
        self._folder = root / run
        with contextlib.ExitStack() as cleanup:
            self._lock = WorkspaceLock(self._folder, lock_timeout_seconds)
            cleanup.callback(self._lock.close)
            self.repository = Repository(folder, self._lock.fd)
            self.approvals = Approvals(self._folder / "approvals.jsonl")
            self.contexts = Contexts(self._folder / "contexts")
            self._merger = self._make_merger(self._folder, self.approvals)
            self._recover(root)
            self.base = self._resolve_base(uncommitted)
            self.date = self.repository.get_commit_date(self.base)
            self._worktrees = WorktreePool(self.repository, self._folder / "desks", run, num_worktrees)
            self.objects = GitObjects(self.repository.git, self._folder / "object.tmp")
            cleanup.pop_all()

    def fork(self, worldline_id: str, commit: str = "") -> str:
        """Opens a worldline at a commit, by default the base, and returns that commit.

        It gets a branch now, and a worktree at its first change.
        """
        target = commit or self.base
        branch = self._get_branch(worldline_id)
        if self.get_open_tip(worldline_id) is not None:
            raise WorkspaceError(f"Worldline {worldline_id} exists already. Use another id.")
        self.objects.update_refs([(f"refs/heads/{branch}", target)])
        return target

    def write(self, worldline_id: str, parents: Sequence[str], files: Mapping[str, bytes], message: str) -> str:
        """Commits new file contents to a worldline, updates its worktree, and returns the commit.

        Args:
            worldline_id: The worldline.
            parents: Its current commit, and further parents.
            files: Contents by path.
            message: Commit message.

        Raises:
            WorkspaceError: A path leads out of the workspace, through a link, or into git's own files.
        """
        branch = self._get_branch(worldline_id)
        for path in files:
            check_path(path)
        commit = self.objects.commit(parents, files, message, self._author, self.date)
        if self._worktrees.is_enabled:
            with self._worktrees.checkout(branch, commit):
                pass
        else:
            self.objects.update_refs([(f"refs/heads/{branch}", commit)])
        return commit

    def get_tip(self, worldline_id: str) -> str:
        """Returns the commit of a worldline, open or archived.

        Raises:
            WorkspaceError: The worldline does not exist.
        """
        commit = self.get_open_tip(worldline_id) or self.objects.get_tip(self._get_archive_ref(worldline_id))
        if commit is None:
            raise WorkspaceError(f"Worldline {worldline_id} not found in the run {self.run}.")
        return commit

    def get_open_tip(self, worldline_id: str) -> str | None:
        """Returns the commit of an open worldline, or None."""
        return self.objects.get_tip(f"refs/heads/{self._get_branch(worldline_id)}")

    @property
    def has_worktrees(self) -> bool:
        """Returns whether worldlines get worktrees."""
        return self._worktrees.is_enabled

    def checkout(self, worldline_id: str, commit: str) -> AbstractContextManager[Path]:
        """Lends a worktree that shows a worldline. Requires `has_worktrees`."""
        return self._worktrees.checkout(self._get_branch(worldline_id), commit)

    def numstat(self, worldline_id: str) -> list[FileChange]:
        """Returns the changed lines per file of a worldline."""
        return self.repository.numstat(self.base, self.get_tip(worldline_id))

    def archive(self, worldline_id: str) -> str:
        """Keeps the commit of a worldline at `refs/atoll/RUN/ID`, and removes its branch and worktree."""
        commit, branch = self.get_tip(worldline_id), self._get_branch(worldline_id)
        self._worktrees.release(branch, commit)
        self.objects.update_refs([(self._get_archive_ref(worldline_id), commit), (f"refs/heads/{branch}", None)])
        return commit

    def list_archived(self) -> list[str]:
        """Returns the ids of archived worldlines."""
        return [ref.rpartition("/")[2] for ref in self.repository.list_refs(self._get_archive_ref(""))]

    def discard(self, worldline_id: str) -> None:
        """Removes all refs of a worldline. Git later removes its objects."""
        branch = self._get_branch(worldline_id)
        self._worktrees.release(branch, self.base)
        refs = (f"refs/heads/{branch}", self._get_archive_ref(worldline_id))
        self.objects.update_refs([(ref, None) for ref in refs if self.objects.get_tip(ref)])
        self.contexts.drop(worldline_id)

    def decide(
        self, worldline_id: str, verdict: Literal["approve", "reject"], approver: str, reason: str = "", *, commit: str
    ) -> Approval:
        """Records a decision about a worldline.

        Args:
            worldline_id: The worldline.
            verdict: The decision.
            approver: The reviewer.
            reason: Why.
            commit: The reviewed commit, as `get_tip` returned it.

        Raises:
            WorkspaceError: The approver is an author, or the commit has changed since.
        """
        tip = self.get_tip(worldline_id)
        if tip != commit:
            raise WorkspaceError(
                f"The worldline {worldline_id} is at {tip[:12]}, but the reviewed commit is {commit!a:.14}. "
                "Review the current commit, then decide."
            )
        approval = Approval(worldline_id, commit, verdict, approver, reason)
        self.approvals.add(approval, self._list_authors(commit))
        return approval

    def merge(self, worldline_id: str) -> str:
        """Merges an approved worldline into the branch of the main worktree and returns the merge commit.

        Raises:
            WorkspaceError: Its current commit is not approved, or the merge fails.
        """
        commit = self.get_tip(worldline_id)
        return self._merger.merge(worldline_id, commit, self._list_authors(commit))

    def close(self) -> None:
        """Archives open worldlines, removes the worktrees and unlocks the run. Can be called twice."""
        if self._lock.fd < 0:
            return
        self.objects.close()
        prefix = f"refs/heads/atoll/{self.run}/"
        open_refs = self.repository.list_refs(prefix)
        self._worktrees.close()
        archive_updates = [
            (f"refs/atoll/{self.run}/{ref.removeprefix(prefix)}", commit) for ref, commit in open_refs.items()
        ]
        self.repository.update_refs([*archive_updates, *((ref, None) for ref in open_refs)])
        recovery.remove_leftovers(self.repository, self._folder, self.run)
        self._lock.close()

    def _recover(self, root: Path) -> None:
        """Removes leftovers of this run and of other inactive runs."""
        for folder in sorted(root.iterdir()):
            if folder == self._folder:
                self._clear_run(folder, self._merger)
                continue
            with contextlib.suppress(WorkspaceError, OSError):
                lock = WorkspaceLock(folder, _OTHER_RUN_TIMEOUT_SECONDS)
                try:
                    self._clear_run(folder, self._make_merger(folder, Approvals(folder / "approvals.jsonl")))
                finally:
                    lock.close()
        archived_refs = self.repository.list_refs(f"refs/atoll/{self.run}/")
        for name in self.contexts.list_names():
            if self._get_archive_ref(name) not in archived_refs:
                self.contexts.drop(name)

    def _clear_run(self, folder: Path, merger: ApprovedMerge) -> None:
        recovery.remove_leftovers(self.repository, folder, check_name(folder.name, "run"))
        merger.recover()

    def _make_merger(self, folder: Path, approvals: Approvals) -> ApprovedMerge:
        return ApprovedMerge(self.repository, approvals, folder / "merging.json")

    def _resolve_base(self, uncommitted: Uncommitted) -> str:
        if uncommitted == "ignore" or not (uncommitted_paths := self.repository.list_uncommitted()):
            return self.repository.get_head().commit
        if uncommitted == "include":
            return self.repository.commit_snapshot(self._folder / "index.tmp", "the user")
        raise WorkspaceError(
            f"{self.repository.folder.name} has uncommitted changes ({', '.join(uncommitted_paths[:3])}), which "
            "worldlines would lack. Commit or stash them, or set task.uncommitted to 'include' or 'ignore'."
        )

    def _list_authors(self, commit: str) -> frozenset[str]:
        """Returns the authors of a worldline's commits."""
        return self.repository.list_authors(commit, self.base) | {self._author}

    def _get_branch(self, worldline_id: str) -> str:
        return f"atoll/{self.run}/{check_name(worldline_id)}"

    def _get_archive_ref(self, worldline_id: str) -> str:
        return f"refs/atoll/{self.run}/{worldline_id}"

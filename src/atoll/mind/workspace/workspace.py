"""The workspaces of one run in one repository: forked, written, compared, archived, approved, merged."""

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

_OTHER_RUN_TIMEOUT_SECONDS = 0.0  # a run that another process works on is left alone at once

type Uncommitted = Literal["refuse", "ignore", "include"]


class Workspace:
    """Keeps worldlines as commits of a repository, each on its branch `atoll/RUN/ID` while it is open.

    A worldline is where its branch is; its worktree only shows that commit, so whatever happens to the files there
    changes nothing. All is written by git beside the main worktree, which is touched by `merge` alone.

    Opening claims the run and clears away what a process that was killed left of it, or of any other run that nobody
    works on: worktrees, branches of unfinished forks, locks, a merge that was cut short.

    Args:
        folder: The top of the main worktree.
        run: Name of the run.
        author: Who writes worldlines, and so cannot approve them.
        num_desks: Worktrees at once; 0: commits only, for repositories too large for worktrees.
        uncommitted: What to do about changes in the main worktree that are not committed: refuse to fork, since
            worldlines would not have what the user sees; ignore them; or include them in the base by a commit that is
            on no branch. None of the three touches the main worktree.
        patience_seconds: How long to wait for whoever works on the run.

    Raises:
        Refused: The repository cannot be used, the run is somebody else's, or there are uncommitted changes.
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
        identities.normalize_name(author)  # one that cannot be compared could approve itself
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

        It has a branch then; it gets a worktree when there is something to show in it.
        """
        target = commit or self.base
        branch = self._get_branch(worldline_id)
        if self.get_open_tip(worldline_id) is not None:
            raise WorkspaceError(f"There is a worldline {worldline_id} already: give the new one another id.")
        self.objects.update_refs([(f"refs/heads/{branch}", target)])
        return target

    def write(self, worldline_id: str, parents: Sequence[str], files: Mapping[str, bytes], message: str) -> str:
        """Commits new contents of files to a worldline, has its worktree show them, and returns the commit.

        Args:
            worldline_id: Which.
            parents: Where it stands, and what else it was made from.
            files: By path.
            message: What for.

        Raises:
            Refused: A path leads out of the workspace, through a link, or into git's own files.
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
        """Returns where a worldline stands, open or archived.

        Raises:
            Refused: There is no such worldline.
        """
        commit = self.get_open_tip(worldline_id) or self.objects.get_tip(self._get_archive_ref(worldline_id))
        if commit is None:
            raise WorkspaceError(f"There is no worldline {worldline_id} in the run {self.run}.")
        return commit

    def get_open_tip(self, worldline_id: str) -> str | None:
        """Returns where the branch of a worldline leads, None if it has none."""
        return self.objects.get_tip(f"refs/heads/{self._get_branch(worldline_id)}")

    @property
    def has_worktrees(self) -> bool:
        """Says whether worldlines get worktrees at all."""
        return self._worktrees.is_enabled

    def checkout(self, worldline_id: str, commit: str) -> AbstractContextManager[Path]:
        """Lends a worktree that shows a worldline, and is nobody else's meanwhile; the run must have some."""
        return self._worktrees.checkout(self._get_branch(worldline_id), commit)

    def numstat(self, worldline_id: str) -> list[FileChange]:
        """Returns how many lines of which files a worldline changed."""
        return self.repository.numstat(self.base, self.get_tip(worldline_id))

    def archive(self, worldline_id: str) -> str:
        """Keeps the commit of a worldline, at `refs/atoll/RUN/ID`, and drops its branch and worktree."""
        commit, branch = self.get_tip(worldline_id), self._get_branch(worldline_id)
        self._worktrees.release(branch, commit)
        self.objects.update_refs([(self._get_archive_ref(worldline_id), commit), (f"refs/heads/{branch}", None)])
        return commit

    def list_archived(self) -> list[str]:
        """Returns the ids of the worldlines that are kept."""
        return [ref.rpartition("/")[2] for ref in self.repository.list_refs(self._get_archive_ref(""))]

    def discard(self, worldline_id: str) -> None:
        """Removes all that leads to a worldline; git clears its objects away in time, as all that nobody needs."""
        branch = self._get_branch(worldline_id)
        self._worktrees.release(branch, self.base)
        refs = (f"refs/heads/{branch}", self._get_archive_ref(worldline_id))
        self.objects.update_refs([(ref, None) for ref in refs if self.objects.get_tip(ref)])
        self.contexts.drop(worldline_id)

    def decide(
        self, worldline_id: str, verdict: Literal["approve", "reject"], approver: str, reason: str = "", *, commit: str
    ) -> Approval:
        """Records what somebody decided about a worldline as they saw it.

        Args:
            worldline_id: Which.
            verdict: The decision.
            by: Who decided.
            reason: Why.
            commit: What they looked at, as `tip` returned it before: whatever came after, nobody has seen.

        Raises:
            Refused: One of those who wrote it did, or it is not what they looked at any more.
        """
        tip = self.get_tip(worldline_id)
        if tip != commit:
            raise WorkspaceError(
                f"The worldline {worldline_id} is at {tip[:12]} and not at {commit!a:.14}, which was looked at: look "
                "at it as it is now, then decide."
            )
        approval = Approval(worldline_id, commit, verdict, approver, reason)
        self.approvals.add(approval, self._list_authors(commit))
        return approval

    def merge(self, worldline_id: str) -> str:
        """Merges an approved worldline into the branch of the main worktree and returns the merge commit.

        Raises:
            Refused: It is not approved as it is now, or cannot be merged.
        """
        commit = self.get_tip(worldline_id)
        return self._merger.merge(worldline_id, commit, self._list_authors(commit))

    def close(self) -> None:
        """Archives what is open, removes the worktrees and lets the run go; a second call does nothing."""
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
        """Clears away what was left: of this run, and of others that nobody works on any more."""
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
            f"{self.repository.folder.name} has uncommitted changes ({', '.join(uncommitted_paths[:3])}), which worldlines would "
            "not have: commit or stash them, or set task.uncommitted to 'include' or 'ignore'."
        )

    def _list_authors(self, commit: str) -> frozenset[str]:
        """Returns who wrote what a worldline adds to the branch that it would be merged into."""
        return self.repository.list_authors(commit, self.base) | {self._author}

    def _get_branch(self, worldline_id: str) -> str:
        return f"atoll/{self.run}/{check_name(worldline_id)}"

    def _get_archive_ref(self, worldline_id: str) -> str:
        return f"refs/atoll/{self.run}/{worldline_id}"

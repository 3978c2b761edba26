"""Workspaces of one run in one repository: fork, write, compare, archive, approve, merge; and agent contexts."""

import contextlib
import json
import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal

from atoll import identities
from atoll.candidate import JSON
from atoll.mind.workspace import worktrees
from atoll.mind.workspace.git import WorkspaceError, check_name, check_path
from atoll.mind.workspace.git_objects import GitObjects
from atoll.mind.workspace.merge import Approval, Approvals, ApprovedMerge
from atoll.mind.workspace.repository import FileChange, Repository
from atoll.mind.workspace.worktrees import WorkspaceLock, WorktreePool
from atoll.mind.worldline import Checkpoint


class Contexts:
    """Stores one file of messages per worldline. Existing lines never change.

    Args:
        folder: Folder of the files.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def fork(self, worldline_id: str, parent: Checkpoint, commit: str) -> Checkpoint:
        """Starts the file of a new worldline with the lines up to its parent's checkpoint."""
        lines = self.read_lines(parent)
        name = f"{check_name(worldline_id)}.jsonl"
        self._folder.mkdir(parents=True, exist_ok=True)
        temp_path = self._folder / f".{name}.new"
        temp_path.write_bytes(b"".join(line + b"\n" for line in lines))
        os.replace(temp_path, self._folder / name)
        return Checkpoint(commit, name, len(lines))

    def add(self, checkpoint: Checkpoint, messages: Sequence[Mapping[str, JSON]], commit: str) -> Checkpoint:
        """Adds messages after a checkpoint and returns the next one. Lines after the checkpoint are dropped."""
        path = self._find_path(checkpoint)
        retained = b"".join(line + b"\n" for line in self.read_lines(checkpoint))
        new_lines = [
            json.dumps(message, ensure_ascii=False, sort_keys=True).encode("utf-8", "replace") for message in messages
        ]
        with path.open("r+b") as file:
            file.truncate(len(retained))
            file.seek(len(retained))
            file.write(b"".join(line + b"\n" for line in new_lines))
        return Checkpoint(commit, checkpoint.context, checkpoint.line + len(new_lines))

    def read(self, checkpoint: Checkpoint) -> list[Mapping[str, Any]]:
        """Returns the messages up to a checkpoint."""
        return [json.loads(line) for line in self.read_lines(checkpoint)]

    def drop(self, worldline_id: str) -> None:
        """Removes the file of a discarded worldline."""
        (self._folder / f"{check_name(worldline_id)}.jsonl").unlink(missing_ok=True)

    def list_names(self) -> list[str]:
        """Returns the worldlines that have a file."""
        return sorted(path.stem for path in self._folder.glob("*.jsonl")) if self._folder.is_dir() else []

    def read_lines(self, checkpoint: Checkpoint) -> list[bytes]:
        if not checkpoint.context or not checkpoint.line:
            return []
        lines = self._find_path(checkpoint).read_bytes().split(b"\n")[:-1]  # a line torn by a crash has no newline
        if len(lines) < checkpoint.line:
            raise WorkspaceError(
                f"{checkpoint.context} has {len(lines)} lines, but its checkpoint is at line {checkpoint.line}."
            )
        return lines[: checkpoint.line]

    def _find_path(self, checkpoint: Checkpoint) -> Path:
        path = self._folder / f"{check_name(checkpoint.context.removesuffix('.jsonl'))}.jsonl"
        if not path.is_file():
            raise WorkspaceError(f"Context {checkpoint.context!r:.60} not found in {self._folder}.")
        return path


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
        worktrees.remove_leftovers(self.repository, self._folder, self.run)
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
        worktrees.remove_leftovers(self.repository, folder, check_name(folder.name, "run"))
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

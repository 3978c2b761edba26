"""Approved merges into the main worktree. A crash cannot leave a merge half done."""

import contextlib
import json
import os
import stat
from collections.abc import Collection, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from threading import Lock
from typing import Literal, NamedTuple

from atoll import errors, identities
from atoll.mind.workspace.git import WorkspaceError
from atoll.mind.workspace.repository import LINK_MODE, SUBMODULE_MODE, Repository, TreeEntry

type Verdict = Literal["approve", "reject", "merged"]


@dataclass(frozen=True, slots=True)
class Approval:
    """Decision about a worldline at one commit, or the record of its merge.

    Attributes:
        worldline_id: The worldline.
        commit: Its commit. Any later edit changes the commit.
        verdict: The decision.
        by: The reviewer, who must not be an author.
        reason: Why.
    """

    worldline_id: str
    commit: str
    verdict: Verdict
    by: str
    reason: str = ""


class Approvals:
    """Stores decisions in a file, one line each, flushed to disk.

    Args:
        path: The file, outside the reach of worldlines.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()

    def add(self, approval: Approval, authors: Collection[str]) -> None:
        """Records a decision.

        Args:
            approval: The decision.
            authors: Authors of the worldline.

        Raises:
            WorkspaceError: The reviewer has no valid name, or is an author.
        """
        require_independent(approval.by, authors)
        line = json.dumps(asdict(approval), ensure_ascii=False, sort_keys=True) + "\n"
        with self._lock, self._path.open("ab+") as file:
            file.seek(0, os.SEEK_END)
            is_torn = file.tell() and not self._ends_with_newline()  # a crash left half a line, which does not count
            file.write((b"\n" if is_torn else b"") + line.encode())
            file.flush()
            os.fsync(file.fileno())

    def find_approval(self, worldline_id: str, commit: str) -> Approval | None:
        """Returns the approval of a worldline at this commit. The last decision counts."""
        decisions = [
            approval for approval in self if approval.worldline_id == worldline_id and approval.verdict != "merged"
        ]
        last = decisions[-1] if decisions else None
        return last if last and last.verdict == "approve" and last.commit == commit else None

    def __iter__(self) -> Iterator[Approval]:
        lines = self._path.read_bytes().splitlines() if self._path.exists() else []
        for line in lines:
            try:
                yield Approval(**json.loads(line))
            except (ValueError, TypeError, RecursionError):
                continue

    def _ends_with_newline(self) -> bool:
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def require_independent(approver: str, authors: Collection[str]) -> None:
    """Checks that the approver is not an author.

    Raises:
        WorkspaceError: The approver is an author, or a name is invalid.
    """
    name = _normalize_name(approver)
    if name in {_normalize_name(author) for author in authors}:
        raise WorkspaceError(f"{approver!a:.60} wrote this worldline and cannot approve it. Ask another reviewer.")


def _normalize_name(name: str) -> str:
    try:
        return identities.normalize_name(name)
    except errors.SetupError as error:
        raise WorkspaceError(f"An approval needs a name. {error}") from error


_MAX_SHOWN_PATHS = 5


class MergeIntent(NamedTuple):
    """Planned merge, written to disk before it begins and removed after it."""

    branch: str
    old: str
    new: str
    worldline_id: str
    commit: str
    by: str


class ApprovedMerge:
    """Merges approved worldlines.

    The merge is computed in memory and committed outside the worktree. Then git fast-forwards the main worktree and its
    branch. `recover` restores and repeats an interrupted merge.

    Args:
        repository: Repository to merge into.
        approval_log: The approvals.
        path: File of the merge intent.
    """

    def __init__(self, repository: Repository, approval_log: Approvals, path: Path) -> None:
        self._repository, self._approval_log, self._path = repository, approval_log, path

    def merge(self, worldline_id: str, commit: str, authors: frozenset[str]) -> str:
        """Merges a worldline (no-ff) and returns the merge commit.

        Args:
            worldline_id: The worldline.
            commit: Its current commit, which must be approved.
            authors: Its authors.

        Raises:
            WorkspaceError: It is not approved at this commit, the main worktree has uncommitted changes or no branch,
                or the merge has conflicts.
        """
        approval = self._approval_log.find_approval(worldline_id, commit)
        if approval is None:
            raise WorkspaceError(
                f"The worldline {worldline_id} is not approved at {commit[:12]}. Approve its current commit. "
                "An approval ends with any edit."
            )
        require_independent(approval.by, authors)
        head = self._repository.get_head()
        if head.branch is None:
            raise WorkspaceError(
                "The main worktree is not on a branch (detached HEAD). Switch to the branch to merge into."
            )
        self._require_clean_worktree()
        tree = self._repository.merge_trees(head.commit, commit)
        message = f"Merge worldline {worldline_id}\n\nApproved-by: {approval.by}\nWorldline-commit: {commit}\n"
        merge_commit = self._repository.commit_tree(tree, (head.commit, commit), message, approval.by)
        intent = MergeIntent(head.branch, head.commit, merge_commit, worldline_id, commit, approval.by)
        self._write_intent(intent)
        try:
            self._fast_forward(intent)
        except WorkspaceError:
            self._path.unlink()  # git checks before it writes, so nothing has changed
            raise
        self._finish_merge(intent)
        return merge_commit

    def recover(self) -> str | None:
        """Finishes an interrupted merge and returns its commit; None if it did not begin.

        Raises:
            WorkspaceError: Its files were changed since. The message names them, and nothing is modified.
        """
        intent = self._read_intent()
        if intent is None:
            return None
        head = self._repository.get_head()
        if head == (intent.new, intent.branch):
            self._finish_merge(intent)
            return intent.new
        if head != (intent.old, intent.branch):
            raise WorkspaceError(
                f"The merge of worldline {intent.worldline_id} was interrupted, and the worktree has changed since. "
                f"Check `git status`, then remove {self._path}."
            )
        self._restore_files(intent)
        if self._approval_log.find_approval(intent.worldline_id, intent.commit) is None:  # rejected meanwhile
            self._path.unlink()
            return None
        self._fast_forward(intent)
        self._finish_merge(intent)
        return intent.new

    def _require_clean_worktree(self) -> None:
        if changed := self._repository.list_changed():
            paths_text = ", ".join(changed[:_MAX_SHOWN_PATHS])
            raise WorkspaceError(
                f"The main worktree has uncommitted changes ({paths_text}). Commit or stash them, then merge."
            )

    def _fast_forward(self, intent: MergeIntent) -> None:
        # This changes the user's branch, so it should be in the reflog.
        options = ("-q", "--ff-only", "--no-stat", "--no-autostash", "--no-verify-signatures")
        config_options = ("-c", "core.logAllRefUpdates=true", "-c", "core.fsync=default")
        self._repository.git(*config_options, "merge", *options, intent.new)

    def _finish_merge(self, intent: MergeIntent) -> None:
        record = Approval(intent.worldline_id, intent.new, "merged", intent.by)
        if record not in list(self._approval_log):
            self._approval_log.add(record, ())
        self._path.unlink(missing_ok=True)

    def _write_intent(self, intent: MergeIntent) -> None:
        temp_path = self._path.with_suffix(".new")
        with temp_path.open("w") as file:
            json.dump(intent._asdict(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temp_path, self._path)

    def _read_intent(self) -> MergeIntent | None:
        try:
            return MergeIntent(**json.loads(self._path.read_text()))
        except FileNotFoundError:
            return None

    def _restore_files(self, intent: MergeIntent) -> None:
        """Restores the files of an interrupted merge, if they contain only old or merged content."""
        # Only this process can own these locks, because it holds the run lock.
        for name in ("index.lock", "HEAD.lock", f"{intent.branch}.lock"):
            (self._repository.git_dir / name).unlink(missing_ok=True)
            (self._repository.common_dir / name).unlink(missing_ok=True)
        paths = self._repository.list_changed_paths(intent.old, intent.new)
        old_entries, new_entries = self._list_entries(intent.old), self._list_entries(intent.new)
        modified_paths = [
            path for path in paths if not self._is_from_merge(path, old_entries.get(path), new_entries.get(path))
        ]
        if modified_paths:
            raise WorkspaceError(
                f"The merge of worldline {intent.worldline_id} was interrupted, and {modified_paths[0]} was changed "
                f"since. Move it away, run `git restore --source {intent.old[:12]} --staged --worktree .`, and resume."
            )
        for path in paths:
            if path not in old_entries:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(self._repository.folder / path)
        path_list = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
        options = ("--pathspec-from-file=-", "--pathspec-file-nul")
        self._repository.git("reset", "-q", *options, intent.old, stdin=path_list)
        old_path_list = "".join(f"{path}\0" for path in paths if path in old_entries).encode(errors="surrogateescape")
        self._repository.git("checkout-index", "-f", "-z", "--stdin", stdin=old_path_list)
        self._repository.git("update-index", "-q", "--refresh")

    def _list_entries(self, commit: str) -> Mapping[str, TreeEntry]:
        return {entry.path: entry for entry in self._repository.list_files(commit)}

    def _is_from_merge(self, path: str, old: TreeEntry | None, new: TreeEntry | None) -> bool:
        """Returns whether a file is missing, as before or after the merge, or partly written by it."""
        file_path = self._repository.folder / path
        try:
            mode = os.lstat(file_path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return True
        if any(entry is not None and entry.mode == SUBMODULE_MODE for entry in (old, new)):
            return True
        if stat.S_ISLNK(mode):
            target = os.fsencode(os.readlink(file_path))
            return any(
                entry is not None and entry.mode == LINK_MODE and self._read_blob(entry) == target
                for entry in (old, new)
            )
        if stat.S_ISDIR(mode):
            return not any(file_path.iterdir())
        content = file_path.read_bytes()
        return bool(
            (old is not None and content == self._read_blob(old))
            or (new is not None and self._read_blob(new).startswith(content))
        )

    def _read_blob(self, entry: TreeEntry) -> bytes:
        return self._repository.git("cat-file", "blob", entry.sha)

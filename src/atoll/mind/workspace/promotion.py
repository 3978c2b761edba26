"""The one way from a worldline into the main worktree: an approved merge that a crash cannot leave half done."""

import contextlib
import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from atoll.mind.workspace import approvals
from atoll.mind.workspace.approvals import Approval, Approvals
from atoll.mind.workspace.names import WorkspaceError
from atoll.mind.workspace.repository import LINK_MODE, SUBMODULE_MODE, TreeEntry, Repository

_MAX_SHOWN_PATHS = 5


class MergeIntent(NamedTuple):
    """What a merge is about to do; on the disk before it begins and gone when it is done."""

    branch: str
    old: str
    new: str
    worldline_id: str
    commit: str
    by: str


class ApprovedMerge:
    """Merges approved worldlines.

    The merge is computed in memory and committed beside everything. Then git moves the main worktree and its branch
    forward to that commit. Whatever is cut short in between is put back and done again by `recover`.

    Args:
        repository: Where to.
        ledger: The approvals; none, and nothing is merged.
        path: Where the intent is written.
    """

    def __init__(self, repository: Repository, approval_log: Approvals, path: Path) -> None:
        self._repository, self._approval_log, self._path = repository, approval_log, path

    def merge(self, worldline_id: str, commit: str, authors: frozenset[str]) -> str:
        """Merges a worldline (no-ff) and returns the merge commit.

        Args:
            worldline_id: Which.
            commit: Where it stands now: exactly that must have been approved.
            authors: Who wrote it.

        Raises:
            Refused: It is not approved as it is now, the main worktree has uncommitted changes or no branch, or both
                changed the same lines.
        """
        approval = self._approval_log.find_approval(worldline_id, commit)
        if approval is None:
            raise WorkspaceError(
                f"The worldline {worldline_id} is not approved at {commit[:12]}: approve it as it is now; an approval "
                "holds for one content, and ends with any edit."
            )
        approvals.require_independent(approval.by, authors)
        head = self._repository.get_head()
        if head.branch is None:
            raise WorkspaceError("The main worktree is on no branch (detached HEAD): switch to the branch to merge into.")
        self._require_clean_worktree()
        tree = self._repository.merge_trees(head.commit, commit)
        message = f"Merge worldline {worldline_id}\n\nApproved-by: {approval.by}\nWorldline-commit: {commit}\n"
        merge_commit = self._repository.commit_tree(tree, (head.commit, commit), message, approval.by)
        intent = MergeIntent(head.branch, head.commit, merge_commit, worldline_id, commit, approval.by)
        self._write_intent(intent)
        try:
            self._fast_forward(intent)
        except WorkspaceError:
            self._path.unlink()  # git looks before it writes: it refused, and changed nothing
            raise
        self._finish_merge(intent)
        return merge_commit

    def recover(self) -> str | None:
        """Finishes a merge that was cut short; returns its commit, None if there was none or it never began.

        Raises:
            Refused: Somebody changed the same files since; the message names them, and nothing was touched.
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
                f"The merge of worldline {intent.worldline_id} was cut short, and the main worktree moved on since: "
                f"look at `git status`, then remove {self._path}."
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
            raise WorkspaceError(f"The main worktree has uncommitted changes ({paths_text}): commit or stash them, then merge.")

    def _fast_forward(self, intent: MergeIntent) -> None:
        # The user's own repository from here on: the step should be in its reflog.
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
        """Has the files of a merge that was cut short be as before it, if all are as git or we left them."""
        for name in ("index.lock", "HEAD.lock", f"{intent.branch}.lock"):  # nobody else has any: we hold the claim
            (self._repository.git_dir / name).unlink(missing_ok=True)
            (self._repository.common_dir / name).unlink(missing_ok=True)
        paths = self._repository.list_changed_paths(intent.old, intent.new)
        old_entries, new_entries = self._list_entries(intent.old), self._list_entries(intent.new)
        modified_paths = [path for path in paths if not self._is_from_merge(path, old_entries.get(path), new_entries.get(path))]
        if modified_paths:
            raise WorkspaceError(
                f"The merge of worldline {intent.worldline_id} was cut short, and {modified_paths[0]} was changed since: move "
                f"it away, run `git restore --source {intent.old[:12]} --staged --worktree .`, and resume."
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
        """Says whether a file is as before the merge, as after it, not there, or half written by it."""
        file_path = self._repository.folder / path
        try:
            mode = os.lstat(file_path).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return True
        if any(entry is not None and entry.mode == SUBMODULE_MODE for entry in (old, new)):
            return True
        if stat.S_ISLNK(mode):
            target = os.fsencode(os.readlink(file_path))
            return any(entry is not None and entry.mode == LINK_MODE and self._read_blob(entry) == target for entry in (old, new))
        if stat.S_ISDIR(mode):
            return not any(file_path.iterdir())
        content = file_path.read_bytes()
        return bool(
            (old is not None and content == self._read_blob(old)) or (new is not None and self._read_blob(new).startswith(content))
        )

    def _read_blob(self, entry: TreeEntry) -> bytes:
        return self._repository.git("cat-file", "blob", entry.sha)

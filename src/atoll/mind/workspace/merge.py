"""The one way from a worldline into the main worktree: an approved merge that a crash cannot leave half done."""

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
from atoll.mind.workspace.path_checks import WorkspaceError
from atoll.mind.workspace.repository import LINK_MODE, SUBMODULE_MODE, Repository, TreeEntry

type Verdict = Literal["approve", "reject", "merged"]


@dataclass(frozen=True, slots=True)
class Approval:
    """What somebody decided about a worldline at one commit, or that it was merged.

    Attributes:
        worldline_id: The worldline.
        commit: The hash of all its content and history: one edit more and it is another.
        verdict: The decision.
        by: Who decided: never one of those who wrote it.
        reason: Why.
    """

    worldline_id: str
    commit: str
    verdict: Verdict
    by: str
    reason: str = ""


class Approvals:
    """Keeps decisions in a file, one line each, on the disk before they count.

    Args:
        path: The file, where no worldline can write.
    """

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()

    def add(self, approval: Approval, authors: Collection[str]) -> None:
        """Records a decision.

        Args:
            approval: The decision.
            authors: Who wrote what it is about.

        Raises:
            Refused: Nobody signed it, or one of the authors did.
        """
        require_independent(approval.by, authors)
        line = json.dumps(asdict(approval), ensure_ascii=False, sort_keys=True) + "\n"
        with self._lock, self._path.open("ab+") as file:
            file.seek(0, os.SEEK_END)
            is_torn = (
                file.tell() and not self._ends_with_newline()
            )  # by a crash: what was not acknowledged does not count
            file.write((b"\n" if is_torn else b"") + line.encode())
            file.flush()
            os.fsync(file.fileno())

    def find_approval(self, worldline_id: str, commit: str) -> Approval | None:
        """Returns the approval that holds for a worldline at this commit; the last decision about it counts."""
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
    """Checks that somebody decides about the work of others.

    Raises:
        Refused: It is nobody, or an author, or a name of one of them cannot be a person's.
    """
    name = _normalize_name(approver)
    if name in {_normalize_name(author) for author in authors}:
        raise WorkspaceError(f"{approver!a:.60} wrote this worldline and cannot approve it: somebody else must.")


def _normalize_name(name: str) -> str:
    try:
        return identities.normalize_name(name)
    except errors.SetupError as error:
        raise WorkspaceError(f"Approvals are by name. {error}") from error


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
        require_independent(approval.by, authors)
        head = self._repository.get_head()
        if head.branch is None:
            raise WorkspaceError(
                "The main worktree is on no branch (detached HEAD): switch to the branch to merge into."
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
            raise WorkspaceError(
                f"The main worktree has uncommitted changes ({paths_text}): commit or stash them, then merge."
            )

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
        modified_paths = [
            path for path in paths if not self._is_from_merge(path, old_entries.get(path), new_entries.get(path))
        ]
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

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
from atoll.mind.workspace.names import Refused
from atoll.mind.workspace.repository import LINK, MODULE, Entry, Repository

_LONGEST_SHOWN = 5


class Intent(NamedTuple):
    """What a merge is about to do; on the disk before it begins and gone when it is done."""

    branch: str
    old: str
    new: str
    worldline_id: str
    commit: str
    by: str


class Promotion:
    """Merges approved worldlines.

    The merge is computed in memory and committed beside everything. Then git moves the main worktree and its branch
    forward to that commit. Whatever is cut short in between is put back and done again by `recover`.

    Args:
        repository: Where to.
        ledger: The approvals; none, and nothing is merged.
        path: Where the intent is written.
    """

    def __init__(self, repository: Repository, ledger: Approvals, path: Path) -> None:
        self._repository, self._ledger, self._path = repository, ledger, path

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
        approval = self._ledger.standing(worldline_id, commit)
        if approval is None:
            raise Refused(
                f"The worldline {worldline_id} is not approved at {commit[:12]}: approve it as it is now; an approval "
                "holds for one content, and ends with any edit."
            )
        approvals.require_other(approval.by, authors)
        head = self._repository.head()
        if head.branch is None:
            raise Refused("The main worktree is on no branch (detached HEAD): switch to the branch to merge into.")
        self._require_clean()
        tree = self._repository.merged_tree(head.commit, commit)
        text = f"Merge worldline {worldline_id}\n\nApproved-by: {approval.by}\nWorldline-commit: {commit}\n"
        new = self._repository.commit_tree(tree, (head.commit, commit), text, approval.by)
        intent = Intent(head.branch, head.commit, new, worldline_id, commit, approval.by)
        self._write(intent)
        try:
            self._forward(intent)
        except Refused:
            self._path.unlink()  # git looks before it writes: it refused, and changed nothing
            raise
        self._finish(intent)
        return new

    def recover(self) -> str | None:
        """Finishes a merge that was cut short; returns its commit, None if there was none or it never began.

        Raises:
            Refused: Somebody changed the same files since; the message names them, and nothing was touched.
        """
        intent = self._read()
        if intent is None:
            return None
        head = self._repository.head()
        if head == (intent.new, intent.branch):
            self._finish(intent)
            return intent.new
        if head != (intent.old, intent.branch):
            raise Refused(
                f"The merge of worldline {intent.worldline_id} was cut short, and the main worktree moved on since: "
                f"look at `git status`, then remove {self._path}."
            )
        self._put_back(intent)
        if self._ledger.standing(intent.worldline_id, intent.commit) is None:  # rejected meanwhile
            self._path.unlink()
            return None
        self._forward(intent)
        self._finish(intent)
        return intent.new

    def _require_clean(self) -> None:
        if changed := self._repository.changed():
            shown = ", ".join(changed[:_LONGEST_SHOWN])
            raise Refused(f"The main worktree has uncommitted changes ({shown}): commit or stash them, then merge.")

    def _forward(self, intent: Intent) -> None:
        # The user's own repository from here on: the step should be in its reflog.
        options = ("-q", "--ff-only", "--no-stat", "--no-autostash", "--no-verify-signatures")
        usual = ("-c", "core.logAllRefUpdates=true", "-c", "core.fsync=default")
        self._repository.git(*usual, "merge", *options, intent.new)

    def _finish(self, intent: Intent) -> None:
        merged = Approval(intent.worldline_id, intent.new, "merged", intent.by)
        if merged not in list(self._ledger):
            self._ledger.add(merged, ())
        self._path.unlink(missing_ok=True)

    def _write(self, intent: Intent) -> None:
        draft = self._path.with_suffix(".new")
        with draft.open("w") as file:
            json.dump(intent._asdict(), file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, self._path)

    def _read(self) -> Intent | None:
        try:
            return Intent(**json.loads(self._path.read_text()))
        except FileNotFoundError:
            return None

    def _put_back(self, intent: Intent) -> None:
        """Has the files of a merge that was cut short be as before it, if all are as git or we left them."""
        for name in ("index.lock", "HEAD.lock", f"{intent.branch}.lock"):  # nobody else has any: we hold the claim
            (self._repository.own / name).unlink(missing_ok=True)
            (self._repository.common / name).unlink(missing_ok=True)
        paths = self._repository.paths(intent.old, intent.new)
        old, new = self._entries(intent.old), self._entries(intent.new)
        foreign = [path for path in paths if not self._is_ours(path, old.get(path), new.get(path))]
        if foreign:
            raise Refused(
                f"The merge of worldline {intent.worldline_id} was cut short, and {foreign[0]} was changed since: move "
                f"it away, run `git restore --source {intent.old[:12]} --staged --worktree .`, and resume."
            )
        for path in paths:
            if path not in old:
                with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                    os.unlink(self._repository.folder / path)
        given = "".join(f"{path}\0" for path in paths).encode(errors="surrogateescape")
        options = ("--pathspec-from-file=-", "--pathspec-file-nul")
        self._repository.git("reset", "-q", *options, intent.old, given=given)
        kept = "".join(f"{path}\0" for path in paths if path in old).encode(errors="surrogateescape")
        self._repository.git("checkout-index", "-f", "-z", "--stdin", given=kept)
        self._repository.git("update-index", "-q", "--refresh")

    def _entries(self, commit: str) -> Mapping[str, Entry]:
        return {entry.path: entry for entry in self._repository.files(commit)}

    def _is_ours(self, path: str, old: Entry | None, new: Entry | None) -> bool:
        """Says whether a file is as before the merge, as after it, not there, or half written by it."""
        place = self._repository.folder / path
        try:
            mode = os.lstat(place).st_mode
        except (FileNotFoundError, NotADirectoryError):
            return True
        if any(entry is not None and entry.mode == MODULE for entry in (old, new)):
            return True
        if stat.S_ISLNK(mode):
            target = os.fsencode(os.readlink(place))
            return any(entry is not None and entry.mode == LINK and self._body(entry) == target for entry in (old, new))
        if stat.S_ISDIR(mode):
            return not any(place.iterdir())
        there = place.read_bytes()
        return bool(
            (old is not None and there == self._body(old)) or (new is not None and self._body(new).startswith(there))
        )

    def _body(self, entry: Entry) -> bytes:
        return self._repository.git("cat-file", "blob", entry.sha)

"""What a run left in a repository, for whoever reviews it: the worldlines that are kept, their diffs, the decisions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from atoll import errors
from atoll.candidate import content_hash
from atoll.mind.workspace.merge import Approval, Approvals
from atoll.mind.workspace.path_checks import WorkspaceError, check_name
from atoll.mind.workspace.repository import FileChange, Repository
from atoll.mind.workspace.workspace import Workspace

type ReviewState = Literal["waits", "approved", "rejected", "merged"]


def make_run_name(folder: Path, repository: str, seed: int) -> str:
    """Returns the name that a task's runs go by in a repository: the same each time it is started with a seed."""
    return f"r{content_hash(f'{folder.resolve()}/{repository}/{seed}')[:10]}"


def find_source(folder: Path, repository: str) -> Path:
    """Returns the folder that a task names, relative to the task's own or to where we are.

    Raises:
        SetupError: There is no such folder.
    """
    requested = Path(repository).expanduser()
    for path in (folder / requested, requested.absolute()):
        if path.is_dir():
            return path
    raise errors.SetupError(
        f"There is nothing to mend, since there is no folder {requested} in {folder} or here: task.repository must name a "
        "repository or a folder."
    )


def is_repository(folder: Path) -> bool:
    """Says whether a folder is kept by git; of another one a run mends a private copy, which nobody can merge."""
    return (folder / ".git").exists() or (folder / "HEAD").is_file()


class ReviewItem(NamedTuple):
    """A worldline as a reviewer meets it.

    Attributes:
        worldline_id: Its name.
        commit: Where it stands: a decision is about exactly this.
        base: What it differs from.
        state: What was decided about this commit, if anything.
        changes: Lines added and deleted, by file.
        decisions: All that was ever decided about it, the oldest first.
    """

    worldline_id: str
    commit: str
    base: str
    state: ReviewState
    changes: Sequence[FileChange]
    decisions: Sequence[Approval]


class ReviewQueue:
    """Looks at the worldlines of one run; reads only, so that a run under way is not disturbed.

    Args:
        folder: The top of the main worktree.
        run: The run's name in it.

    Raises:
        Refused: The repository cannot be used.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self.run, self.repository = check_name(run, "run"), Repository(folder)
        self._approvals = Approvals(self.repository.common_dir / "atoll" / run / "approvals.jsonl")

    def list_items(self) -> list[ReviewItem]:
        """Returns the worldlines that there are, by their ids."""
        prefixes = (f"refs/heads/atoll/{self.run}/", f"refs/atoll/{self.run}/")
        commits = {
            ref.removeprefix(prefix): commit
            for prefix in prefixes
            for ref, commit in self.repository.list_refs(prefix).items()
        }
        return [self._make_item(worldline_id, commit) for worldline_id, commit in sorted(commits.items())]

    def get(self, worldline_id: str) -> ReviewItem:
        """Returns one of them, by its id or the beginning of it.

        Raises:
            NotFound: There is none of that name.
        """
        items = self.list_items()
        matches = [item for item in items if worldline_id and item.worldline_id.startswith(worldline_id)]
        if len(matches) == 1:
            return matches[0]
        available = ", ".join(item.worldline_id for item in items) or "none"
        raise errors.NotFound(f"There is no worldline {worldline_id!r:.60} to review: there is {available}.")

    def diff(self, worldline_id: str) -> str:
        """Returns how a worldline differs from what it was forked from, as a patch."""
        item = self.get(worldline_id)
        return self.repository.diff(item.base, item.commit)

    def _make_item(self, worldline_id: str, commit: str) -> ReviewItem:
        decisions = [approval for approval in self._approvals if approval.worldline_id == worldline_id]
        merged = next((approval for approval in reversed(decisions) if approval.verdict == "merged"), None)
        target = "HEAD" if merged is None else f"{merged.commit}^1"
        base = self.repository.git.read_line("merge-base", target, commit)
        changes = self.repository.numstat(base, commit)
        return ReviewItem(worldline_id, commit, base, _get_state(decisions, commit, merged), changes, decisions)


def decide(
    folder: Path,
    run: str,
    worldline_id: str,
    verdict: Literal["approve", "reject"],
    approver: str,
    reason: str,
    commit: str,
) -> Approval:
    """Records a decision about a worldline at the commit that was looked at.

    Raises:
        Refused: There is no reason, an author decides, it is another commit by now, or its run is still at work.
    """
    if not reason.strip():
        raise WorkspaceError("A decision needs a reason: say why.")
    workspace = _open_workspace(folder, run)
    try:
        return workspace.decide(worldline_id, verdict, approver, reason, commit=commit)
    finally:
        workspace.close()


def merge(folder: Path, run: str, worldline_id: str) -> str:
    """Merges an approved worldline into the branch of the main worktree and returns the merge commit.

    Raises:
        Refused: It is not approved as it is now, cannot be merged, or its run is still at work.
    """
    workspace = _open_workspace(folder, run)
    try:
        return workspace.merge(worldline_id)
    finally:
        workspace.close()


def _open_workspace(folder: Path, run: str) -> Workspace:
    return Workspace(folder, run, num_worktrees=0, uncommitted="ignore", lock_timeout_seconds=0.5)


def _get_state(decisions: Sequence[Approval], commit: str, merged: Approval | None) -> ReviewState:
    if merged is not None and decisions[-1] == merged:
        return "merged"
    reviews = [approval for approval in decisions if approval.verdict != "merged"]
    if not reviews or reviews[-1].commit != commit:
        return "waits"
    return "approved" if reviews[-1].verdict == "approve" else "rejected"

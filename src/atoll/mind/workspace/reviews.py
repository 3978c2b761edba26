"""Review of a run's worldlines in a repository: list, diff, decide, merge."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from atoll import errors
from atoll.candidate import content_hash
from atoll.mind import fitness_weights
from atoll.mind.workspace.git import WorkspaceError, check_name
from atoll.mind.workspace.merge import Approval, Approvals
from atoll.mind.workspace.repository import FileChange, Repository
from atoll.mind.workspace.workspace import Workspace

WEIGHTS_KEY, learn_weights = fitness_weights.KEY, fitness_weights.learn_weights

type ReviewState = Literal["waits", "approved", "rejected", "merged"]


def make_run_name(folder: Path, repository: str, seed: int) -> str:
    """Returns the name of a task's runs in a repository. It depends on folder, repository and seed."""
    return f"r{content_hash(f'{folder.resolve()}/{repository}/{seed}')[:10]}"


def make_worldline_id(plan: str) -> str:
    """Returns the id of the worldline of a plan. The same edits have the same id in every run."""
    return content_hash(plan)[:16]


def find_source(folder: Path, repository: str) -> Path:
    """Returns the folder that a task names, relative to the task folder or the current folder.

    Raises:
        SetupError: The folder is not found.
    """
    requested = Path(repository).expanduser()
    for path in (folder / requested, requested.absolute()):
        if path.is_dir():
            return path
    raise errors.SetupError(
        f"Folder {requested} not found in {folder} or here. Set task.repository to a repository or a folder."
    )


def is_repository(folder: Path) -> bool:
    """Returns whether a folder is a git repository. Others are repaired in a private copy that cannot be merged."""
    return (folder / ".git").exists() or (folder / "HEAD").is_file()


class ReviewItem(NamedTuple):
    """Worldline for review.

    Attributes:
        worldline_id: Its id.
        commit: Its commit. A decision applies to this commit only.
        base: Commit that it is compared with.
        state: Decision about this commit, if any.
        changes: Added and deleted lines, by file.
        decisions: All decisions about it, oldest first.
    """

    worldline_id: str
    commit: str
    base: str
    state: ReviewState
    changes: Sequence[FileChange]
    decisions: Sequence[Approval]


class ReviewQueue:
    """Reads the worldlines of one run. Does not disturb an active run.

    Args:
        folder: Top of the main worktree.
        run: Name of the run in the repository.

    Raises:
        WorkspaceError: The repository cannot be used.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self.run, self.repository = check_name(run, "run"), Repository(folder)
        self._approvals = Approvals(self.repository.common_dir / "atoll" / run / "approvals.jsonl")

    def list_items(self) -> list[ReviewItem]:
        """Returns all worldlines, by id."""
        prefixes = (f"refs/heads/atoll/{self.run}/", f"refs/atoll/{self.run}/")
        commits = {
            ref.removeprefix(prefix): commit
            for prefix in prefixes
            for ref, commit in self.repository.list_refs(prefix).items()
        }
        return [self._make_item(worldline_id, commit) for worldline_id, commit in sorted(commits.items())]

    def get(self, worldline_id: str) -> ReviewItem:
        """Returns a worldline by its id or a prefix of it.

        Raises:
            NotFound: No worldline, or more than one, matches.
        """
        items = self.list_items()
        matches = [item for item in items if worldline_id and item.worldline_id.startswith(worldline_id)]
        if len(matches) == 1:
            return matches[0]
        available = ", ".join(item.worldline_id for item in items) or "none"
        raise errors.NotFound(f"Worldline {worldline_id!r:.60} not found. Available: {available}.")

    def diff(self, worldline_id: str) -> str:
        """Returns a patch from the base to a worldline."""
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
    """Records a decision about a worldline at the reviewed commit.

    Raises:
        WorkspaceError: The reason is empty, the approver is an author, the commit has changed, or the run is active.
    """
    if not reason.strip():
        raise WorkspaceError("A decision needs a reason. Pass one.")
    workspace = _open_workspace(folder, run)
    try:
        return workspace.decide(worldline_id, verdict, approver, reason, commit=commit)
    finally:
        workspace.close()


def merge(folder: Path, run: str, worldline_id: str) -> str:
    """Merges an approved worldline into the branch of the main worktree and returns the merge commit.

    Raises:
        WorkspaceError: Its current commit is not approved, the merge fails, or the run is active.
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

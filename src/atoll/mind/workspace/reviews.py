"""What a run left in a repository, for whoever reviews it: the worldlines that are kept, their diffs, the decisions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from atoll import errors
from atoll.candidate import digest
from atoll.mind.workspace.approvals import Approval, Approvals
from atoll.mind.workspace.names import Refused, checked_name
from atoll.mind.workspace.repository import Change, Repository
from atoll.mind.workspace.workspace import Workspace

type State = Literal["waits", "approved", "rejected", "merged"]


def place_of(folder: Path, repository: str, seed: int) -> str:
    """Returns the name that a task's runs go by in a repository: the same each time it is started with a seed."""
    return f"r{digest(f'{folder.resolve()}/{repository}/{seed}')[:10]}"


def source_of(folder: Path, repository: str) -> Path:
    """Returns the folder that a task names, relative to the task's own or to where we are.

    Raises:
        SetupError: There is no such folder.
    """
    wanted = Path(repository).expanduser()
    for each in (folder / wanted, wanted.absolute()):
        if each.is_dir():
            return each
    raise errors.SetupError(
        f"There is nothing to mend, since there is no folder {wanted} in {folder} or here: task.repository must name a "
        "repository or a folder."
    )


def is_repository(folder: Path) -> bool:
    """Says whether a folder is kept by git; of another one a run mends a private copy, which nobody can merge."""
    return (folder / ".git").exists() or (folder / "HEAD").is_file()


class Reviewed(NamedTuple):
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
    state: State
    changes: Sequence[Change]
    decisions: Sequence[Approval]


class Reviews:
    """Looks at the worldlines of one run; reads only, so that a run under way is not disturbed.

    Args:
        folder: The top of the main worktree.
        run: The run's name in it.

    Raises:
        Refused: The repository cannot be used.
    """

    def __init__(self, folder: Path, run: str) -> None:
        self.run, self.repository = checked_name(run, "run"), Repository(folder)
        self._approvals = Approvals(self.repository.common / "atoll" / run / "approvals.jsonl")

    def all(self) -> list[Reviewed]:
        """Returns the worldlines that there are, by their ids."""
        prefixes = (f"refs/heads/atoll/{self.run}/", f"refs/atoll/{self.run}/")
        found = {ref.removeprefix(each): at for each in prefixes for ref, at in self.repository.refs(each).items()}
        return [self._reviewed(id, commit) for id, commit in sorted(found.items())]

    def get(self, worldline_id: str) -> Reviewed:
        """Returns one of them, by its id or the beginning of it.

        Raises:
            NotFound: There is none of that name.
        """
        everything = self.all()
        close = [each for each in everything if worldline_id and each.worldline_id.startswith(worldline_id)]
        if len(close) == 1:
            return close[0]
        there = ", ".join(each.worldline_id for each in everything) or "none"
        raise errors.NotFound(f"There is no worldline {worldline_id!r:.60} to review: there is {there}.")

    def diff(self, worldline_id: str) -> str:
        """Returns how a worldline differs from what it was forked from, as a patch."""
        found = self.get(worldline_id)
        return self.repository.diff(found.base, found.commit)

    def _reviewed(self, id: str, commit: str) -> Reviewed:
        decisions = [each for each in self._approvals if each.worldline_id == id]
        merged = next((each for each in reversed(decisions) if each.verdict == "merged"), None)
        onto = "HEAD" if merged is None else f"{merged.commit}^1"
        base = self.repository.git.line("merge-base", onto, commit)
        changes = self.repository.numstat(base, commit)
        return Reviewed(id, commit, base, _state(decisions, commit, merged), changes, decisions)


def decide(
    folder: Path, run: str, worldline_id: str, verdict: Literal["approve", "reject"], by: str, reason: str, commit: str
) -> Approval:
    """Records a decision about a worldline at the commit that was looked at.

    Raises:
        Refused: There is no reason, an author decides, it is another commit by now, or its run is still at work.
    """
    if not reason.strip():
        raise Refused("A decision needs a reason: say why.")
    space = _opened(folder, run)
    try:
        return space.decide(worldline_id, verdict, by, reason, commit=commit)
    finally:
        space.close()


def merge(folder: Path, run: str, worldline_id: str) -> str:
    """Merges an approved worldline into the branch of the main worktree and returns the merge commit.

    Raises:
        Refused: It is not approved as it is now, cannot be merged, or its run is still at work.
    """
    space = _opened(folder, run)
    try:
        return space.merge(worldline_id)
    finally:
        space.close()


def _opened(folder: Path, run: str) -> Workspace:
    return Workspace(folder, run, num_desks=0, uncommitted="ignore", patience_seconds=0.5)


def _state(decisions: Sequence[Approval], commit: str, merged: Approval | None) -> State:
    if merged is not None and decisions[-1] == merged:
        return "merged"
    about = [each for each in decisions if each.verdict != "merged"]
    if not about or about[-1].commit != commit:
        return "waits"
    return "approved" if about[-1].verdict == "approve" else "rejected"

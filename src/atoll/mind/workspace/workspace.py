"""The workspaces of one run in one repository: forked, written, compared, archived, approved, merged."""

import contextlib
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Literal

from atoll import persons
from atoll.mind.workspace import recovery
from atoll.mind.workspace.approvals import Approval, Approvals
from atoll.mind.workspace.claim import Claim
from atoll.mind.workspace.context import Contexts
from atoll.mind.workspace.desks import Desks
from atoll.mind.workspace.names import Refused, checked_name, checked_path
from atoll.mind.workspace.objects import Objects
from atoll.mind.workspace.promotion import Promotion
from atoll.mind.workspace.repository import Change, Repository

_OTHERS_SECONDS = 0.0  # a run that another process works on is left alone at once

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
        num_desks: int = 2,
        uncommitted: Uncommitted = "refuse",
        patience_seconds: float = 10.0,
    ) -> None:
        self.run, self._author = checked_name(run, "run"), author
        persons.folded(author)  # one that cannot be compared could approve itself
        place = Repository(folder).common / "atoll"
        self._folder = place / run
        with contextlib.ExitStack() as opened:
            self._claim = Claim(self._folder, patience_seconds)
            opened.callback(self._claim.close)
            self.repository = Repository(folder, self._claim.fd)
            self.approvals = Approvals(self._folder / "approvals.jsonl")
            self.contexts = Contexts(self._folder / "contexts")
            self._promotion = self._promotion_of(self._folder, self.approvals)
            self._recover(place)
            self.base = self._base(uncommitted)
            self.date = self.repository.date_of(self.base)
            self._desks = Desks(self.repository, self._folder / "desks", run, num_desks)
            self.objects = Objects(self.repository.git, self._folder / "object.tmp")
            opened.pop_all()

    def fork(self, worldline_id: str, commit: str = "") -> str:
        """Opens a worldline at a commit, by default the base, and returns that commit.

        It has a branch then; it gets a worktree when there is something to show in it.
        """
        at = commit or self.base
        branch = self._branch(worldline_id)
        if self.open_at(worldline_id) is not None:
            raise Refused(f"There is a worldline {worldline_id} already: give the new one another id.")
        self.objects.move([(f"refs/heads/{branch}", at)])
        return at

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
        branch = self._branch(worldline_id)
        for path in files:
            checked_path(path)
        commit = self.objects.commit(parents, files, message, self._author, self.date)
        if self._desks.has_any:
            with self._desks.seated(branch, commit):
                pass
        else:
            self.objects.move([(f"refs/heads/{branch}", commit)])
        return commit

    def tip(self, worldline_id: str) -> str:
        """Returns where a worldline stands, open or archived.

        Raises:
            Refused: There is no such worldline.
        """
        found = self.open_at(worldline_id) or self.objects.tip(self._kept(worldline_id))
        if found is None:
            raise Refused(f"There is no worldline {worldline_id} in the run {self.run}.")
        return found

    def open_at(self, worldline_id: str) -> str | None:
        """Returns where the branch of a worldline leads, None if it has none."""
        return self.objects.tip(f"refs/heads/{self._branch(worldline_id)}")

    @property
    def has_desks(self) -> bool:
        """Says whether worldlines get worktrees at all."""
        return self._desks.has_any

    def seated(self, worldline_id: str, commit: str) -> AbstractContextManager[Path]:
        """Lends a worktree that shows a worldline, and is nobody else's meanwhile; the run must have some."""
        return self._desks.seated(self._branch(worldline_id), commit)

    def numstat(self, worldline_id: str) -> list[Change]:
        """Returns how many lines of which files a worldline changed."""
        return self.repository.numstat(self.base, self.tip(worldline_id))

    def archive(self, worldline_id: str) -> str:
        """Keeps the commit of a worldline, at `refs/atoll/RUN/ID`, and drops its branch and worktree."""
        commit, branch = self.tip(worldline_id), self._branch(worldline_id)
        self._desks.leave(branch, commit)
        self.objects.move([(self._kept(worldline_id), commit), (f"refs/heads/{branch}", None)])
        return commit

    def archived(self) -> list[str]:
        """Returns the ids of the worldlines that are kept."""
        return [ref.rpartition("/")[2] for ref in self.repository.refs(self._kept(""))]

    def discard(self, worldline_id: str) -> None:
        """Removes all that leads to a worldline; git clears its objects away in time, as all that nobody needs."""
        branch = self._branch(worldline_id)
        self._desks.leave(branch, self.base)
        refs = (f"refs/heads/{branch}", self._kept(worldline_id))
        self.objects.move([(ref, None) for ref in refs if self.objects.tip(ref)])
        self.contexts.drop(worldline_id)

    def decide(
        self, worldline_id: str, verdict: Literal["approve", "reject"], by: str, reason: str = "", *, commit: str
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
        tip = self.tip(worldline_id)
        if tip != commit:
            raise Refused(
                f"The worldline {worldline_id} is at {tip[:12]} and not at {commit!a:.14}, which was looked at: look "
                "at it as it is now, then decide."
            )
        decided = Approval(worldline_id, commit, verdict, by, reason)
        self.approvals.add(decided, self._authors(commit))
        return decided

    def merge(self, worldline_id: str) -> str:
        """Merges an approved worldline into the branch of the main worktree and returns the merge commit.

        Raises:
            Refused: It is not approved as it is now, or cannot be merged.
        """
        commit = self.tip(worldline_id)
        return self._promotion.merge(worldline_id, commit, self._authors(commit))

    def close(self) -> None:
        """Archives what is open, removes the worktrees and lets the run go; a second call does nothing."""
        if self._claim.fd < 0:
            return
        self.objects.close()
        prefix = f"refs/heads/atoll/{self.run}/"
        opened = self.repository.refs(prefix)
        self._desks.close()
        kept = [(f"refs/atoll/{self.run}/{ref.removeprefix(prefix)}", commit) for ref, commit in opened.items()]
        self.repository.move([*kept, *((ref, None) for ref in opened)])
        recovery.sweep(self.repository, self._folder, self.run)
        self._claim.close()

    def _recover(self, place: Path) -> None:
        """Clears away what was left: of this run, and of others that nobody works on any more."""
        for folder in sorted(place.iterdir()):
            if folder == self._folder:
                self._clear(folder, self._promotion)
                continue
            with contextlib.suppress(Refused, OSError):
                claim = Claim(folder, _OTHERS_SECONDS)
                try:
                    self._clear(folder, self._promotion_of(folder, Approvals(folder / "approvals.jsonl")))
                finally:
                    claim.close()
        known = self.repository.refs(f"refs/atoll/{self.run}/")
        for name in self.contexts.names():
            if self._kept(name) not in known:
                self.contexts.drop(name)

    def _clear(self, folder: Path, promotion: Promotion) -> None:
        recovery.sweep(self.repository, folder, checked_name(folder.name, "run"))
        promotion.recover()

    def _promotion_of(self, folder: Path, ledger: Approvals) -> Promotion:
        return Promotion(self.repository, ledger, folder / "merging.json")

    def _base(self, uncommitted: Uncommitted) -> str:
        if uncommitted == "ignore" or not (changed := self.repository.uncommitted()):
            return self.repository.head().commit
        if uncommitted == "include":
            return self.repository.snapshot(self._folder / "index.tmp", "the user")
        raise Refused(
            f"{self.repository.folder.name} has uncommitted changes ({', '.join(changed[:3])}), which worldlines would "
            "not have: commit or stash them, or set task.uncommitted to 'include' or 'ignore'."
        )

    def _authors(self, commit: str) -> frozenset[str]:
        """Returns who wrote what a worldline adds to the branch that it would be merged into."""
        return self.repository.authors(commit, self.base) | {self._author}

    def _branch(self, worldline_id: str) -> str:
        return f"atoll/{self.run}/{checked_name(worldline_id)}"

    def _kept(self, worldline_id: str) -> str:
        return f"refs/atoll/{self.run}/{worldline_id}"

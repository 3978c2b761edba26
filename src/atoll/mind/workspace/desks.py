"""Warm worktrees: a worldline gets one that is there already, and only the files that differ are written."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition

from atoll.mind.workspace.repository import Repository


class Desks:
    """Lends worktrees to worldlines.

    To make a worktree of 1,000 files and remove it takes most of a second, to have one show another commit a few
    hundredths (bench/workspace.py). Where more worldlines are open than there are desks, the one that was idle longest
    gives its desk up: its branch and commit stay, and it gets a desk again when it needs one.

    Args:
        repository: What they show.
        folder: Where they lie.
        run: What their names begin with.
        most: How many there may be; 0: worldlines have commits and no files, for repositories that are too large.
    """

    def __init__(self, repository: Repository, folder: Path, run: str, most: int) -> None:
        self._repository, self._folder, self._run, self._most = repository, folder, run, most
        self._turn = Condition()
        self._lent: OrderedDict[str, Path] = OrderedDict()
        self._busy: set[Path] = set()
        self._free: list[Path] = []
        self._num_made = 0
        self._shown: dict[Path, tuple[str, str]] = {}  # each written only by who has the desk

    @property
    def has_any(self) -> bool:
        return self._most > 0

    @contextmanager
    def seated(self, branch: str, commit: str) -> Iterator[Path]:
        """Has the desk of a branch show a commit, the branch lead there, and nobody take the desk meanwhile."""
        desk = self._taken(branch)
        try:
            if self._shown.get(desk) != (branch, commit):
                self._shown.pop(desk, None)
                options = ("-q", "-f", "--ignore-other-worktrees", "-B", branch)
                self._repository.git("checkout", *options, commit, "--", at=desk)
                self._shown[desk] = (branch, commit)
            yield desk
        finally:
            with self._turn:
                self._busy.discard(desk)
                self._turn.notify_all()

    def leave(self, branch: str, commit: str) -> None:
        """Takes the desk of a branch back: it is on no branch then, and its files stay until somebody needs others."""
        with self._turn:
            desk = self._lent.pop(branch, None)
        if desk is None:
            return
        self._shown.pop(desk, None)
        self._repository.git("update-ref", "--no-deref", "HEAD", commit, at=desk)
        with self._turn:
            self._free.append(desk)
            self._turn.notify_all()

    def close(self) -> None:
        """Removes all worktrees; called when nobody works any more."""
        with self._turn:
            desks, self._free = [*self._free, *self._lent.values()], []
            self._lent.clear()
        for desk in desks:
            self._repository.git("worktree", "remove", "--force", "--force", str(desk))

    def _taken(self, branch: str) -> Path:
        with self._turn:
            while True:
                desk = self._lent.get(branch) or self._any()
                if desk is not None and desk not in self._busy:
                    break
                self._turn.wait()
            self._lent[branch] = desk
            self._lent.move_to_end(branch)
            self._busy.add(desk)
        if not desk.exists():
            self._make(desk)
        return desk

    def _any(self) -> Path | None:
        """Takes a desk that is free, new, or idle the longest; None: all are at work."""
        if self._free:
            return self._free.pop()
        if self._num_made < self._most:
            self._num_made += 1
            return self._folder / f"atoll-{self._run}-{self._num_made}"
        idle = next((branch for branch, desk in self._lent.items() if desk not in self._busy), None)
        return None if idle is None else self._lent.pop(idle)

    def _make(self, desk: Path) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        self._repository.git("worktree", "add", "-q", "--force", "--detach", "--no-checkout", str(desk), "HEAD")

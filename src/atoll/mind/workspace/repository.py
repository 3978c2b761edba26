"""A git repository as worldlines need it: commits made beside every worktree, by plumbing alone."""

import os
import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from atoll.mind.workspace import git
from atoll.mind.workspace.names import Refused

LINK, MODULE = "120000", "160000"
_COMMITTED = re.compile(rb"^committer [^\n]*> (\d{1,18}) [+-]\d{4}$", re.MULTILINE)
_WHOLE = ("--no-ext-diff", "--no-textconv", "--no-renames", "--ignore-submodules=none")

# Not what is dirty inside a submodule: git would ask another git there, under the settings of the submodule alone.
_STATUS = ("status", "--porcelain=v1", "-z", "--no-renames", "--ignore-submodules=dirty")


class Entry(NamedTuple):
    """A file as a commit has it; the size of what is no file is 0."""

    mode: str
    sha: str
    size: int
    path: str


class Change(NamedTuple):
    """Lines that a file gained and lost; None: it is binary."""

    path: str
    added: int | None
    deleted: int | None


class Head(NamedTuple):
    """Where the main worktree stands; no branch: it is detached."""

    commit: str
    branch: str | None


class Repository:
    """Reads and writes objects and references; touches no worktree.

    Args:
        folder: The top of the main worktree.
        hold: A descriptor that every call of git inherits.

    Raises:
        Refused: It is no repository with a worktree and a commit that is the user's own.
        SetupError: There is no git that is new enough.
    """

    def __init__(self, folder: Path, hold: int | None = None) -> None:
        self.folder = folder.resolve()
        _require_own(self.folder)
        self.git = git.Git(self.folder, hold)
        told = self.git.ask("rev-parse", "--is-bare-repository", "--git-common-dir", "--git-dir", "--show-prefix")
        is_bare, _, rest = told.out.decode(errors="surrogateescape").partition("\n")
        common, _, rest = rest.partition("\n")
        own, _, _ = rest.partition("\n")
        if is_bare == "true" or (told.code and "work tree" in told.said):
            raise Refused(f"{folder} is a bare repository: give the folder of a clone that has files.")
        if told.code:
            raise Refused(f"{folder} is no git repository that can be used: {told.said.splitlines()[0]}")
        self.common = Path(os.path.realpath(self.folder / common))
        self.own = Path(os.path.realpath(self.folder / own))  # differs where the folder is a linked worktree itself
        self._require_plain()

    def _require_plain(self) -> None:
        names = {name.lower() for name in self.git.records("config", "--list", "--name-only", "-z")}
        if "core.worktree" in names:
            raise Refused(f"{self.folder} keeps its files elsewhere (core.worktree): give the folder of a plain clone.")
        if self.tip("HEAD") is None:
            raise Refused(f"{self.folder} has no commit yet, and a worldline forks from one: make a first commit.")

    def head(self) -> Head:
        """Returns the commit and the branch of the main worktree."""
        named = self.git.ask("symbolic-ref", "-q", "HEAD")
        return Head(self.commit_of("HEAD"), named.out.decode().strip() or None)

    def uncommitted(self) -> list[str]:
        """Returns the paths of the main worktree that differ from its commit, without those that git ignores."""
        told = self.git.records(*_STATUS, "--untracked-files=normal")
        return [each[3:] for each in told]

    def changed(self) -> list[str]:
        """Returns the tracked paths of the main worktree that differ from its commit."""
        told = self.git.records(*_STATUS, "--untracked-files=no")
        return [each[3:] for each in told]

    def snapshot(self, index: Path, author: str) -> str:
        """Returns a commit of the main worktree as it is, uncommitted changes and all; changes nothing in it.

        Args:
            index: Where a private index may be written; the worktree's own is not touched.
            author: Who makes it.
        """
        head = self.commit_of("HEAD")
        self.git("read-tree", head, index=index)
        self.git("add", "--all", "--ignore-errors", index=index)
        tree = self.git.line("write-tree", index=index)
        return self.commit_tree(tree, (head,), "Take the uncommitted state along", author, self.date_of(head))

    def tip(self, ref: str) -> str | None:
        """Returns the commit that a reference leads to, if it is there."""
        told = self.git.ask("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
        return told.out.decode().strip() or None

    def commit_of(self, ref: str) -> str:
        commit = self.tip(ref)
        if commit is None:
            raise Refused(f"There is no commit {ref!r:.80} in {self.folder}.")
        return commit

    def date_of(self, commit: str) -> str:
        """Returns when a commit was made, as git takes it: worldlines bear the date of their base, and no clock's."""
        head, _, _ = self.git("cat-file", "commit", commit).partition(b"\n\n")
        found = _COMMITTED.search(head)
        if found is None:
            raise Refused(f"The commit {commit[:12]} of {self.folder} does not say when it was made: repair it.")
        return f"@{found[1].decode()} +0000"

    def authors(self, commit: str, base: str) -> frozenset[str]:
        """Returns who wrote and who committed what a commit adds to another.

        By `rev-list`, which knows nothing of signatures: `log` starts what a repository names to check them.
        """
        options = ("--no-commit-header", "--format=%an%n%cn")
        told = self.git("rev-list", *options, commit, f"^{base}", "--").decode(errors="replace")
        return frozenset(told.removesuffix("\n").split("\n")) - {""}

    def files(self, commit: str) -> list[Entry]:
        """Returns all files of a commit, links and submodules too."""
        return [_entry(each) for each in self.git.records("ls-tree", "-r", "-z", "--long", commit)]

    def commit_tree(self, tree: str, parents: Sequence[str], message: str, author: str, date: str = "") -> str:
        """Returns a commit of a tree; without a date it is of this moment."""
        above = [word for parent in parents for word in ("-p", parent)]
        made = self.git("commit-tree", tree, *above, given=message.encode(), env=git.signed(author, date))
        return made.decode().strip()

    def numstat(self, base: str, commit: str) -> list[Change]:
        """Returns how many lines of which files differ between two commits."""
        return [_change(each) for each in self.git.records("diff-tree", "-r", "-z", "--numstat", *_WHOLE, base, commit)]

    def paths(self, base: str, commit: str) -> list[str]:
        """Returns which files differ between two commits."""
        return self.git.records("diff-tree", "-r", "-z", "--name-only", *_WHOLE, base, commit)

    def diff(self, base: str, commit: str) -> str:
        """Returns how two commits differ, as a patch."""
        return self.git("diff-tree", "-r", "-p", *_WHOLE, base, commit).decode(errors="replace")

    def merged_tree(self, ours: str, theirs: str) -> str:
        """Returns the tree of a merge that is made in memory.

        Raises:
            Refused: They contradict each other; the message names the files.
        """
        options = ("--write-tree", "--name-only", "--no-messages", "-z")
        told = self.git.ask("merge-tree", *options, ours, theirs)
        tree, *conflicts = [each for each in told.out.decode(errors="replace").split("\0") if each] or [""]
        if told.code == 1:
            raise Refused(f"It cannot be merged, both changed {', '.join(conflicts[:5])}: fork it again from the head.")
        if told.code or not tree:
            raise Refused(f"It cannot be merged: {told.said or 'git did not say why'}")
        return tree

    def refs(self, prefix: str) -> Mapping[str, str]:
        """Returns the references below a prefix with the commits that they lead to."""
        told = self.git("for-each-ref", "--format=%(objectname) %(refname)", prefix).decode()
        return {ref: sha for sha, _, ref in (line.partition(" ") for line in told.splitlines())}

    def move(self, updates: Iterable[tuple[str, str | None]]) -> None:
        """Has references lead to commits, or removes them (None): all of them or none."""
        lines = (f"update {ref}\0{new}\0\0" if new else f"delete {ref}\0\0" for ref, new in updates)
        if given := "".join(lines).encode():
            self.git("update-ref", "--no-deref", "-z", "--stdin", given=given)


def _entry(line: str) -> Entry:
    facts, _, path = line.partition("\t")
    mode, _, sha, size = facts.split()
    return Entry(mode, sha, int(size) if size.isdigit() else 0, path)


def _change(line: str) -> Change:
    added, deleted, path = line.split("\t", 2)
    return Change(path, None if added == "-" else int(added), None if deleted == "-" else int(deleted))


def _require_own(folder: Path) -> None:
    """Checks that a folder holds a repository of its own: one further up is not meant, and a link leads elsewhere."""
    try:
        mode = os.lstat(folder / ".git").st_mode
    except OSError:
        bare = (folder / "HEAD").is_file() and (folder / "objects").is_dir()
        why = "is a bare repository: give the folder of a clone that has files" if bare else "is no git repository"
        raise Refused(f"{folder} {why}.") from None
    if stat.S_ISLNK(mode):
        raise Refused(f"{folder / '.git'} is a link to another place: give the folder that it belongs to.")
